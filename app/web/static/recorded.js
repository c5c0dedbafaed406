// Recorded games of Daihinmin: the form for a file, and a game step by step.

import { named } from "./cards.js";
import { button, el, label, numberOf, onEnter } from "./dom.js";

// Reads a file up to a line, and returns this line.
async function nthLine(file, wanted) {
  const isPacked = file.name.endsWith(".gz");
  const stream = isPacked ? file.stream().pipeThrough(new DecompressionStream("gzip")) : file.stream();
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let n = 1; ;) {
    const { value, done } = await reader.read().catch(() => {
      throw new Error(`${file.name} must be ${isPacked ? "packed by gzip" : "a text file"}, and is not.`);
    });
    const lines = (rest + (value || "")).split("\n");
    rest = lines.pop();
    for (const line of done && rest ? [...lines, rest] : lines) {
      if (n === wanted) return line;
      n += 1;
    }
    if (done)
      throw new Error(
        n === 1
          ? `${file.name} must have a game in each line, and is empty.`
          : `Game number must be a whole number from 1 to ${n - 1}, the lines of ${file.name}, got ${wanted}`,
      );
  }
}

// The recorded game of a line.
function gameOf(line, name) {
  try {
    const game = JSON.parse(line);
    if (game?.constructor === Object) return game;
    throw new SyntaxError("no object");
  } catch {
    throw new Error(
      `Each line of ${name} must be a recorded game as JSON, as afterstate serve writes it, got ${JSON.stringify(line.slice(0, 60))}`,
    );
  }
}

export class RecordedForm {
  // `open` steps through the game of the file, `openOwn` through that of the match.
  constructor(open, openOwn) {
    this.file = el("input", { type: "file", accept: ".jsonl,.json,.gz" });
    this.line = onEnter(el("input", { type: "number", min: 1, value: 1 }), open);
    this.summary = el("summary", {}, "Recorded games");
    this.node = el(
      "details",
      { className: "panel" },
      this.summary,
      el(
        "p",
        { className: "dim" },
        "JSON lines, as afterstate serve writes them, also packed as .gz. The file stays in the browser; one game is sent.",
      ),
      label("File", this.file),
      label("Game number", this.line),
      el(
        "div",
        { className: "row" },
        button("Step through it", open),
        button("Step through this match's game", openOwn),
      ),
    );
  }

  // Returns the chosen game.
  async game() {
    const file = this.file.files[0];
    if (!file) throw new Error("Choose a file first.");
    return gameOf(await nthLine(file, numberOf(this.line, "Game number")), file.name);
  }
}

// A game step by step, shown at a table in place of the match.
export class Stepper {
  constructor(table, game) {
    this.table = table;
    this.game = game;
    this.at = 0;
    this.text = el("p", { "aria-live": "polite" });
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: game.steps.length - 1,
      value: 0,
      oninput: () => this.go(Number(this.slider.value)),
    });
    const differences = game.mismatches.map((each) => `Differs from the rules: ${each}`);
    table.handNode.replaceChildren(
      this.text,
      ...differences.map((each) => el("p", { className: "best" }, each)),
    );
    table.stepNode.replaceChildren(
      button("Back (←)", () => this.go(this.at - 1)),
      button("Forward (→)", () => this.go(this.at + 1), { className: "main" }),
      label("Step", this.slider),
      button("Close (Esc)", () => table.closeSteps()),
    );
  }

  // Shows a step, and lists what happened up to it.
  go(to) {
    const { steps, names } = this.game;
    this.at = Math.max(0, Math.min(steps.length - 1, to));
    this.slider.value = this.at;
    this.table.showTable(steps[this.at], names);
    const events = steps.slice(0, this.at + 1).map((step) => step.events.map((each) => named(each, names)));
    const log = this.table.logNode;
    log.replaceChildren(...events.flat().map((text) => el("li", {}, text)));
    log.scrollTop = log.scrollHeight;
    this.text.textContent = `${this.at} of ${steps.length - 1}: ${events[this.at].join(" ")}`;
  }

  key(event) {
    const targets = { ArrowLeft: this.at - 1, ArrowRight: this.at + 1, Home: 0, End: Infinity };
    if (event.key in targets) this.go(targets[event.key]);
    else if (event.key === "Escape") this.table.closeSteps();
    else return;
    event.preventDefault();
  }
}
