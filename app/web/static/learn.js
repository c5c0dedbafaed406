// The view in which an N-tuple network learns 2048 from nothing.

import { Board } from "./board.js";
import {
  AWAY,
  attempt,
  button,
  el,
  get,
  label,
  message,
  messageText,
  number,
  numberOf,
  onEnter,
  post,
  say,
  stopThinking,
  think,
} from "./dom.js";

class Learn {
  constructor(view, signal) {
    this.isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.seconds = onEnter(el("input", { type: "number", min: 1, max: 300, value: 60, step: "any" }), () =>
      this.send("start"),
    );
    this.startButton = button("Train from scratch", () => this.send("start"), { className: "main" });
    this.resumeButton = button("Continue training", () => this.send("resume"));
    this.stopButton = button("Stop", () => this.send("stop"));
    this.playSeconds = onEnter(el("input", { type: "number", min: 1, max: 30, value: 10, step: "any" }), () =>
      this.play(),
    );
    this.playButton = button("Timed games", () => this.play());
    this.facts = el("dl", { className: "numbers" });
    this.results = el("dl", { className: "numbers", ariaLabel: "Results of timed games" });
    this.curve = el("div");
    this.board = new Board();
    this.caption = el("p", { className: "dim" });
    this.after = el("p");
    view.append(
      el(
        "p",
        {},
        "An N-tuple network of 2048 begins with all values zero and learns by temporal coherence from its own games, in one process on the server.",
      ),
      el(
        "div",
        { className: "columns" },
        el(
          "section",
          { className: "panel", "aria-label": "Learning" },
          el("h2", {}, "Learning"),
          label("Seconds", this.seconds),
          el("div", { className: "row" }, this.startButton, this.resumeButton, this.stopButton),
          this.facts,
          this.curve,
          label("Seconds of play", this.playSeconds),
          el("div", { className: "row" }, this.playButton),
          this.results,
          this.after,
        ),
        el(
          "section",
          { "aria-label": "Current game" },
          el("h2", {}, "Current game"),
          this.board.node,
          this.caption,
        ),
      ),
    );
    this.board.show(Array(16).fill(0));
    this.signal = signal;
    const timers = [setInterval(() => this.poll(), 1000), setInterval(() => this.next(), 150)];
    signal.addEventListener("abort", () => timers.forEach(clearInterval));
  }

  async send(what) {
    const question = "Replace your trained network?";
    if (what === "start" && this.state?.exists && !confirm(question)) return;
    const body = () => (what === "stop" ? {} : { seconds: numberOf(this.seconds, "Seconds") });
    const state = await attempt(() => post(`learn/${what}`, body()));
    if (!state) return;
    this.show(state);
    say(what === "stop" ? "Stopped." : "Learning.");
  }

  // Shows what the network reaches in games that it plays greedily for a time, or stops them.
  async play() {
    if (!this.state?.exists) return;
    if (this.isPlaying) return void stopThinking();
    this.isPlaying = true;
    this.playButton.textContent = "Stop playing";
    say("Playing.");
    const played = await attempt(() =>
      think("learn/play", { seconds: numberOf(this.playSeconds, "Seconds of play") }),
    );
    this.isPlaying = false;
    this.playButton.textContent = "Timed games";
    if (!played) return;
    const reached = Object.entries(played.reach).map(([tile, share]) => [
      `reach ${tile}`,
      `${number(100 * share)}%`,
    ]);
    this.results.replaceChildren(
      ...numbers({
        games: number(played.n_games),
        "mean score": number(played.mean_score),
        "best score": number(played.max_score),
        ...Object.fromEntries(reached),
      }),
    );
    say(
      `${number(played.n_games)} games in ${number(played.seconds)} seconds. Mean score ${number(played.mean_score)}.`,
    );
  }

  async poll() {
    if (!this.state?.running || this.isPolling) return;
    this.isPolling = true;
    const state = await get("learn").catch(() => null);
    this.isPolling = false;
    if (this.signal.aborted) return undefined;
    if (!state) return message(AWAY);
    if (messageText() === AWAY) message("");
    this.show(state);
    if (!state.exists) message("The server was restarted, and your network is gone.");
  }

  show(state) {
    const was = this.state?.running;
    this.state = state;
    this.playButton.disabled = !state.exists;
    this.resumeButton.disabled = !state.exists || state.running;
    this.stopButton.disabled = !state.running;
    if (state.error) message(state.error);
    const last = state.curve.at(-1);
    if (!last) {
      this.sample = null;
      this.facts.replaceChildren();
      this.curve.replaceChildren();
      this.after.textContent = state.running
        ? "The network is being prepared, which takes a minute or two the first time."
        : "";
      return;
    }
    const facts = {
      seconds: number(last.seconds),
      moves: number(last.n_moves),
      games: number(last.n_games),
      "mean score": number(last.mean_score),
      "reach 2048": `${number(100 * last.reach_2048)}%`,
      "largest tile": number(last.max_tile),
    };
    this.facts.replaceChildren(...numbers(facts));
    this.curve.replaceChildren(curve(state.curve));
    if (was && !state.running)
      say(`Learned for ${facts.seconds} seconds. Mean score ${facts["mean score"]}.`);
    this.after.textContent = "";
    if (!state.running)
      this.after.replaceChildren(
        el("a", { href: "#2048" }, "Play 2048 with it"),
        ": choose the player ",
        el("strong", {}, "Your network"),
        ". It is kept until the server ends, or makes room for another visitor after a minute in which nobody used it.",
      );
  }

  // Shows the next board of a game by the network, without motion its last one; then that of the network now.
  next() {
    const isEnd = !this.sample || this.frame === this.sample.boards.length - 1;
    const { sample } = this.state || {};
    if (isEnd && (!sample?.boards?.length || sample.score === this.sample?.score)) return;
    if (isEnd) [this.sample, this.frame] = [sample, -1];
    const { boards } = this.sample;
    this.frame = this.isStill ? boards.length - 1 : this.frame + 1;
    this.board.show(boards[this.frame]);
    this.caption.textContent = `Game of seed 0 by the network, score ${number(this.sample.score)}.`;
  }
}

// Terms and values of a list of numbers.
function numbers(facts) {
  return Object.entries(facts).map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)));
}

// The mean score of the last 1,000 games against the time.
function curve(points) {
  const [width, height] = [560, 240];
  const [most, top] = [
    Math.max(10, points.at(-1).seconds),
    Math.max(...points.map((each) => each.mean_score), 1),
  ];
  const x = (seconds) => 60 + ((width - 75) * seconds) / most;
  const y = (score) => height - 30 - ((height - 50) * score) / top;
  const svg = el("svg", {
    viewBox: `0 0 ${width} ${height}`,
    class: "curve",
    role: "img",
    "aria-label": `Learning curve: mean score ${number(points.at(-1).mean_score)} after ${number(points.at(-1).seconds)} seconds.`,
  });
  svg.append(
    el("line", { x1: 60, y1: y(0), x2: width - 15, y2: y(0) }),
    el("line", { x1: 60, y1: y(0), x2: 60, y2: 15 }),
  );
  svg.append(
    el("text", { x: 4, y: y(top) + 4 }, number(top)),
    el("text", { x: 4, y: y(0) + 4 }, "0"),
    el("text", { x: width - 60, y: height - 10 }, `${number(most)} s`),
    el("text", { x: 70, y: 14 }, "mean score of the last 1,000 games"),
  );
  const last = points.at(-1);
  svg.append(el("circle", { cx: x(last.seconds), cy: y(last.mean_score), r: 3 }));
  svg.append(
    el("polyline", { points: points.map((each) => `${x(each.seconds)},${y(each.mean_score)}`).join(" ") }),
  );
  return svg;
}

export async function open(view, _me, _rest, signal) {
  const learn = new Learn(view, signal);
  learn.show(await get("learn"));
}
