// The view of 2048: play, hints, auto-run and set-up.

import { Board, NAMES, describe, picture, place, tileOf } from "./board.js";
import {
  PlayerChoice,
  attempt,
  begin,
  button,
  el,
  get,
  label,
  message,
  number,
  onEnter,
  post,
  say,
  seedOf,
  stopThinking,
  takesKey,
  think,
  thinking,
  wait,
} from "./dom.js";
import { analysis } from "./analysis.js";

const KEYS = {
  ArrowUp: 0,
  w: 0,
  k: 0,
  ArrowRight: 1,
  d: 1,
  l: 1,
  ArrowDown: 2,
  s: 2,
  j: 2,
  ArrowLeft: 3,
  a: 3,
  h: 3,
};
const MAX_MOVES = 2000; // of one request
const ARROWS = ["↑", "→", "↓", "←"];
const SAY_MS = 5000; // between two moves of a run that are said
const BATCH_MS = 120; // at full speed, moves of about this time come together

class Game {
  constructor(view, me, signal) {
    this.me = me;
    this.signal = signal;
    this.board = new Board();
    this.queue = [];
    this.isBusy = false;
    this.running = null; // the auto-run, which ends when it is another object or null
    this.state = { board: Array(16).fill(0), turn: -1, max_tile: 0, over: true }; // until the server has given one
    this.said = 0; // when a move was said last
    this.hinting = null; // the search for a hint
    this.rest = null; // what the server has played and a paused run has not shown
    this.choice = new PlayerChoice("Player", [...me.players["2048"], me.trained], "player-2048");
    this.build(view);
  }

  build(view) {
    const stats = ["score", "largest tile", "moves", "seed"].map((name) => {
      const value = el("dd", {}, "");
      this[name === "largest tile" ? "best" : name] = value;
      return el("div", {}, el("dt", {}, name), value);
    });
    this.seedInput = onEnter(el("input", { type: "number", min: 0, placeholder: "random" }), () =>
      this.startHere(),
    );
    this.undoButton = button("Undo (U)", () => this.undo());
    this.chance = el("input", { type: "checkbox", onchange: () => this.showChance(null) });
    this.chanceNode = el("div", { className: "strip" });
    this.over = el("p", { className: "best" });
    const arrows = el(
      "div",
      { className: "arrows" },
      el("span"),
      this.arrow(0),
      el("span"),
      this.arrow(3),
      this.arrow(2),
      this.arrow(1),
    );
    this.setup = el("div");
    const left = el(
      "section",
      { "aria-label": "Game" },
      el("h2", { className: "hidden" }, "Game"),
      el("dl", { className: "numbers" }, ...stats),
      this.board.node,
      this.over,
      this.buildPlay(),
      el("div", { className: "row" }, arrows),
      el(
        "div",
        { className: "row" },
        button("New game (N)", () => this.start()),
        label("seed", this.seedInput),
        this.undoButton,
        button("Set up a position", () => this.openSetup()),
      ),
      this.setup,
      label("show the afterstate before the new tile", this.chance),
      this.chanceNode,
      el("p", { className: "dim keys" }, "Keys: arrows, WASD or HJKL move; the buttons name theirs."),
    );
    view.append(el("div", { className: "columns game" }, left, this.buildPlayer()));
    this.listen();
  }

  arrow(action) {
    return button(ARROWS[action], () => this.press(action), { ariaLabel: `Move ${NAMES[action]}` });
  }

  // The buttons of the player, next to the board that they change.
  buildPlay() {
    this.runButton = button("Run (R)", () => this.toggleRun(), { className: "main" });
    this.timing = el("p", { className: "dim timing" });
    return el(
      "div",
      {},
      el(
        "div",
        { className: "row" },
        button("Hint (?)", () => this.hint()),
        button("Step (space)", () => this.step()),
        this.runButton,
        button("Stop (Esc)", () => this.stop()),
      ),
      this.timing,
    );
  }

  buildPlayer() {
    this.speed = el("input", {
      type: "range",
      min: 0,
      max: 4,
      step: 1,
      value: localStorage.getItem("speed") || 2,
    });
    this.speedText = el("output");
    this.speed.addEventListener("input", () => this.showSpeed());
    this.showSpeed();
    this.until = el(
      "select",
      {},
      el("option", { value: "" }, "game over"),
      ...[2048, 4096, 8192, 16384].map((tile) => el("option", { value: tile }, String(tile))),
    );
    this.until.value = localStorage.getItem("until") ?? "2048";
    this.until.addEventListener("change", () => localStorage.setItem("until", this.until.value));
    this.detail = el("input", { type: "checkbox", checked: localStorage.getItem("detail") === "1" });
    this.detail.addEventListener("change", () =>
      localStorage.setItem("detail", this.detail.checked ? "1" : ""),
    );
    this.result = el("div", { "aria-live": "polite" });
    const section = el(
      "section",
      { className: "panel", "aria-label": "Player and hints" },
      el("h2", {}, "Player"),
      this.choice.node,
      label("Speed", this.speed),
      this.speedText,
      label("Stop at", this.until),
      label("show lines, outcomes and tree with hints", this.detail),
      this.result,
    );
    this.leaveFields(section);
    return section;
  }

  // Gives the focus to the board after a choice or Enter; keys that choose in a closed list keep it.
  leaveFields(section) {
    let key = ""; // the last one, if it may have chosen
    section.addEventListener("pointerdown", () => {
      key = "";
    });
    section.addEventListener("keydown", (event) => {
      key = event.altKey || event.key === " " ? "" : event.key;
      if (key === "Enter" && event.target.matches("select, input")) this.board.node.focus();
    });
    section.addEventListener("change", (event) => {
      if (event.target.matches("select") && !key) this.board.node.focus();
    });
    section.addEventListener("click", (event) => {
      if (event.target.matches("input[type=range]")) this.board.node.focus();
    });
  }

  showSpeed() {
    this.delay = [1000, 400, 150, 40, 0][this.speed.value];
    this.speedText.textContent = this.delay
      ? `${number(1000 / this.delay, 1)} moves per second at most`
      : "as fast as the player";
    localStorage.setItem("speed", this.speed.value);
  }

  listen() {
    const onKey = (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || takesKey(event)) return;
      const isHeld = event.repeat && /^[rn?]$/i.test(event.key); // acts once
      if (isHeld || this.handle(event.key, event.target)) event.preventDefault();
    };
    addEventListener("keydown", onKey, { signal: this.signal });
    let from = null;
    addEventListener(
      "pointerdown",
      (event) => {
        const isSwipe = event.isPrimary && this.board.node.contains(event.target); // a second finger ends it
        from = isSwipe ? [event.clientX, event.clientY] : null;
      },
      { signal: this.signal },
    );
    addEventListener(
      "pointercancel",
      () => {
        from = null;
      },
      { signal: this.signal },
    );
    addEventListener(
      "pointerup",
      (event) => {
        if (!from || !event.isPrimary) return;
        const [x, y] = [event.clientX - from[0], event.clientY - from[1]];
        from = null;
        if (Math.max(Math.abs(x), Math.abs(y)) < 24) return;
        this.press(Math.abs(x) > Math.abs(y) ? (x > 0 ? 1 : 3) : y > 0 ? 2 : 0);
      },
      { signal: this.signal },
    );
    this.signal.addEventListener("abort", () => {
      this.running = null;
    });
  }

  handle(key, target) {
    const action = KEYS[key.length === 1 ? key.toLowerCase() : key];
    if (action !== undefined) this.press(action);
    else if (key === "?") this.hint();
    else if (key === " " && !/^(BUTTON|INPUT|SUMMARY)$/.test(target.tagName)) this.step();
    else if (key.toLowerCase() === "u") this.undo();
    else if (key.toLowerCase() === "n") this.start();
    else if (key.toLowerCase() === "r") this.toggleRun();
    else if (key === "Escape") this.stop();
    else return false;
    return true;
  }

  // Shows a position of the server.
  show(state) {
    this.state = state;
    this.board.show(state.board);
    this.showNumbers();
    this.showChance(null);
    this.result.replaceChildren();
  }

  showNumbers() {
    const state = this.state;
    this.score.textContent = number(state.score);
    this.best.textContent = number(state.max_tile);
    this.moves.textContent = number(state.n_moves);
    this.seed.textContent = state.seed ?? "set up";
    this.undoButton.disabled = !state.can_undo;
    this.over.textContent = state.over ? "No move is left. Undo, or start a new game." : "";
    if (state.over) say(`Game over. Score ${state.score}.`);
  }

  // Starts a game unless the visitor keeps the one that is running.
  async start(body = null) {
    const wanted = body || (await attempt(() => ({ seed: seedOf(this.seedInput) })));
    if (!wanted || (this.state.n_moves && !this.state.over && !confirm("Give up the current game?")))
      return undefined;
    await this.settle();
    this.isBusy = true; // keys wait until the new game is shown
    this.dropHint();
    this.expected = null;
    const state = await attempt(() => begin("2048/new", wanted, this.state));
    this.isBusy = false;
    this.queue = [];
    if (!state) return undefined;
    this.show(state);
    say(`New game. ${describe(state.board)}`);
    return state;
  }

  async startHere() {
    if (await this.start()) this.board.node.focus();
  }

  // Moves at once; the tile comes with the answer of the server.
  press(action) {
    if (this.running) this.stop();
    this.catchUp();
    if (this.queue.length < 3) this.queue.push(action);
    this.work();
  }

  async work() {
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      while (this.queue.length) await this.move(this.queue.shift());
    } finally {
      this.isBusy = false;
    }
  }

  async move(action) {
    const moved = this.board.slide(action);
    if (!moved.legal) return say(`${NAMES[action]} moves no tile.`);
    this.result.replaceChildren();
    this.dropHint();
    const played = await attempt(() => post("2048/move", { action, turn: this.state.turn }));
    if (!played) {
      this.queue = [];
      return this.reload();
    }
    this.finish(played);
  }

  finish(played) {
    this.board.spawn(played.tile);
    if (played.board.some((exponent, cell) => exponent !== this.board.board[cell]))
      this.board.show(played.board);
    this.state = played;
    this.showNumbers();
    this.showChance(played);
    const tile = `${tileOf(played.tile.exponent)} at ${place(played.tile.cell)}`;
    const reward = played.reward ? `plus ${played.reward}` : "no merge";
    const end = played.over ? " Game over." : "";
    if (played.over || this.isTimeToSay())
      say(`${NAMES[played.action]}, ${reward}. New ${tile}. Score ${played.score}.${end}`);
  }

  // True for the moves that are said: of a run some only, so that a screen reader can follow.
  isTimeToSay() {
    const now = performance.now();
    if (this.running && now - this.said < SAY_MS) return false;
    this.said = now;
    return true;
  }

  // Shows the position of the server, or the last one that it gave.
  async reload() {
    const me = await get("me").catch(() => null);
    this.show(me?.game_2048 || this.state);
  }

  async undo() {
    await this.settle();
    if (!this.state.can_undo) return say("There is nothing to undo.");
    this.isBusy = true; // keys wait until the position is shown
    this.dropHint();
    const state = await attempt(() => post("2048/undo", { turn: this.state.turn }));
    if (state) this.show(state);
    else await this.reload();
    this.isBusy = false;
    if (state) say("Move undone.");
    return this.work(); // keys that were pressed meanwhile
  }

  // Ends a run, and waits for its last answer.
  async settle() {
    if (this.running) await this.stop();
    while (this.isBusy) await wait(10);
    this.catchUp();
  }

  // Asks for a hint in place of one that is being computed.
  async hint() {
    const last = (this.lastHint = {});
    await this.endHint();
    await this.settle();
    if (this.lastHint !== last) return;
    this.hinting = this.ask(this.state.turn, this.choice.player).finally(() => {
      this.hinting = null;
    });
  }

  // Stops the search for a hint, for which the position is out of date.
  dropHint() {
    if (this.hinting) stopThinking();
  }

  // Stops the search for a hint, and waits for its end: there is one search at a time.
  async endHint() {
    while (this.hinting) {
      await stopThinking(); // again, if it came before the search
      await Promise.race([this.hinting, wait(200)]);
    }
  }

  async ask(turn, player) {
    this.timing.textContent = thinking(player);
    const dropped = (error) => {
      if (this.state.turn === turn) throw error;
    }; // else the visitor has moved
    const hint = await attempt(() =>
      think("2048/hint", { player: this.choice.spec(), detail: this.detail.checked }).catch(dropped),
    );
    this.timing.textContent = "";
    if (!hint || this.state.turn !== turn) return;
    if (hint.turn === turn) this.result.replaceChildren(...analysis(hint, player));
    else {
      await this.reload();
      message("The game was continued in another window; this is its position now.");
    }
  }

  async request(moves) {
    const until = Number(this.until.value) || null;
    const reached = until && this.state.max_tile >= until;
    const body = { moves, turn: this.state.turn, until: reached ? null : until };
    await this.endHint();
    const { player } = this.choice;
    const slow = setTimeout(() => {
      this.timing.textContent ||= thinking(player);
    }, 300);
    const answer = await attempt(() => think("2048/run", { ...body, player: this.choice.spec() }));
    clearTimeout(slow);
    if (!answer) this.timing.textContent = "";
    return answer ? { played: answer.played, ms: (answer.seconds * 1000) / answer.played.length } : null;
  }

  async step() {
    if (this.running || this.isBusy || this.state.over) return;
    if (this.rest) return this.showNext();
    this.isBusy = true;
    this.timing.textContent = "";
    this.rest = await this.request(1);
    this.isBusy = false;
    if (this.rest) this.showNext();
    else await this.reload();
    this.work(); // keys that were pressed meanwhile
  }

  // Shows the next move that the server has played.
  showNext() {
    const { played, ms } = this.rest;
    const move = played.shift();
    if (!played.length) this.rest = null;
    this.result.replaceChildren();
    this.board.slide(move.action);
    this.finish(move);
    this.timing.textContent = `${number(ms, 2)} ms per move`;
  }

  // Shows the last position that the server has played.
  catchUp() {
    if (!this.rest) return;
    const last = this.rest.played.at(-1);
    this.rest = null;
    this.show(last);
  }

  toggleRun() {
    if (this.running) this.stop();
    else this.run();
  }

  async run() {
    if (this.signal.aborted) return;
    const me = this.newRun();
    while (this.isBusy && this.running === me) await wait(10); // for a move or a new game
    if (this.running !== me) return;
    this.isBusy = true; // keys wait until the answer of a last request is shown
    this.timing.textContent = "";
    try {
      await this.keepRunning(me);
    } finally {
      this.isBusy = false;
    }
    this.work();
  }

  // A run that may still wait for its start; what stops it ends the waiting too.
  newRun() {
    const me = (this.running = {});
    me.stopped = new Promise((resolve) => {
      me.stop = resolve;
    });
    this.runButton.textContent = "Pause (R)";
    return me;
  }

  async keepRunning(me) {
    const from = this.state.max_tile;
    const isReached = () =>
      from < Number(this.until.value) && this.state.max_tile >= Number(this.until.value);
    let batch = 1;
    while (this.running === me && !this.state.over && !isReached()) {
      const start = performance.now();
      const drawn = ["random", "reward"].includes(this.choice.player.name); // draws from one stream
      const n = drawn && this.expected != null ? MAX_MOVES : this.delay > 100 ? 1 : batch;
      this.rest ||= await this.request(n);
      if (!this.rest) {
        await this.reload();
        break;
      }
      batch = Math.max(1, Math.min(100, Math.floor(BATCH_MS / Math.max(this.rest.ms, this.delay, 0.5))));
      await this.playBack(start, me);
    }
    if (!this.rest?.played.at(-1).over) this.catchUp(); // the rest of a whole game is shown later
    if (this.running === me) this.running = null;
    if (!this.running) this.runButton.textContent = "Run (R)";
    if (this.state.over && this.expected != null && this.state.seed != null) {
      const same = this.state.score === this.expected;
      this.timing.textContent = `Score on the leaderboard: ${number(this.expected)}, ${same ? "the same" : "different"} here.`;
      this.expected = null;
    }
    if (isReached()) say(`Stopped at the tile ${this.state.max_tile}. Score ${this.state.score}.`);
    else if (!this.state.over) say(`Stopped. Score ${this.state.score}.`);
  }

  // Shows the moves of the server one by one, at full speed the last one only.
  async playBack(start, me) {
    while (this.rest && this.running === me) {
      const { played } = this.rest;
      if (this.delay === 0 && played.length > 1)
        this.board.show(played.splice(0, played.length - 1).at(-1).board);
      this.showNext();
      await Promise.race([
        wait(Math.max(this.delay ? 4 : 0, (this.delay || 16) - (performance.now() - start))),
        me.stopped,
      ]);
      start = performance.now();
    }
  }

  async stop() {
    this.running?.stop();
    this.running = null;
    this.runButton.textContent = "Run (R)";
    await stopThinking();
    this.timing.textContent = "";
  }

  // Shows the afterstate of the last move, and what chance could and did add.
  showChance(played) {
    this.chanceNode.replaceChildren();
    if (!this.chance.checked || !played) return;
    const empty = played.after.filter((exponent) => !exponent).length;
    const odds = `Chance then adds a 2 (90%) or a 4 (10%) to one of ${empty} empty cells.`;
    const tile = `It added a ${tileOf(played.tile.exponent)} at ${place(played.tile.cell)}.`;
    this.chanceNode.append(
      picture(played.after, `Afterstate of ${NAMES[played.action]}, reward ${played.reward}. ${odds}`),
      picture(played.board, tile),
    );
  }

  openSetup() {
    if (this.setup.hasChildNodes()) return this.setup.replaceChildren();
    const board = [...this.state.board];
    const inputs = board.map((exponent, cell) => {
      const input = el("select", { ariaLabel: `Tile at ${place(cell)}` });
      for (let e = 0; e < 18; e++) input.append(el("option", { value: e }, e ? String(tileOf(e)) : "empty"));
      input.value = exponent;
      return input;
    });
    const startHere = async () => {
      if (await this.start({ board: inputs.map((each) => Number(each.value)) })) {
        this.setup.replaceChildren();
        this.board.node.focus();
      }
    };
    const clear = () =>
      inputs.forEach((each) => {
        each.value = 0;
      });
    this.setup.append(
      el(
        "fieldset",
        {},
        el("legend", {}, "Position"),
        el("div", { className: "cells" }, ...inputs),
        el(
          "div",
          { className: "row" },
          button("Start from here", startHere, { className: "main" }),
          button("Clear", clear),
        ),
      ),
    );
    return inputs[0].focus();
  }
}

export async function open(view, me, [action, ...rest], signal) {
  const game = new Game(view, me, signal);
  const row = action === "watch" ? rest : null;
  const isHere = row && me.players["2048"].some((each) => each.name === row[1]);
  if (me.game_2048) game.show(me.game_2048);
  if (isHere) await watch(game, row);
  else if (!me.game_2048) await game.start();
  if (row && !isHere) message(`there is no player ${row[1]} here`);
  game.board.node.dataset.game = "ready";
}

// Replays a row of the leaderboard: #2048/watch/SEED/NAME/SETTING=VALUE,.../SCORE
async function watch(game, [seed, name, settings = "", score = ""]) {
  const values = Object.fromEntries(
    settings
      .split(",")
      .filter(Boolean)
      .map((pair) => pair.split("=")),
  );
  history.replaceState(null, "", "#2048");
  if (!/^\d{1,15}$/.test(seed)) return message(`seed must be a whole number, got ${seed}`);
  const wrong = game.choice.wrongOf(name, values);
  if (wrong) return message(wrong);
  if (!(await game.start({ seed: Number(seed) })) || game.signal.aborted) return undefined;
  game.choice.use(name, values);
  game.until.value = "";
  game.expected = score === "" ? null : Number(score);
  return void game.run();
}
