// The view of Daihinmin: a seat at the table, five players to watch, and recorded games.

import { cardName, cardNode, named, pretty, tableNode } from "./cards.js";
import {
  PlayerChoice,
  attempt,
  begin,
  button,
  el,
  get,
  label,
  message,
  messageText,
  number,
  post,
  say,
  scroll,
  stopThinking,
  tableOf,
  takesKey,
  think,
  thinking,
  wait,
} from "./dom.js";
import { MatchForm, rules } from "./match_form.js";
import { RecordedForm, Stepper } from "./recorded.js";

export const GIVE_UP = "Give up the current match of Daihinmin?";
export const isRunning = (match) => Boolean(match && match.begun && !match.match_over);

class Table {
  constructor(view, me, signal) {
    this.me = me;
    this.signal = signal;
    this.selected = new Set();
    this.hinted = null; // the play of the last hint, while its cards are selected
    this.events = [];
    this.nLeft = 0; // cards in the hands that are shown
    this.last = Promise.resolve(); // the last of the actions that are run one after another
    this.playing = null; // the other players' moves, which end when it is another object or null
    this.stepper = null; // of a recorded game, which is then shown instead of the match
    this.expected = null; // number and places of the leaderboard's game that is played again
    this.build(view);
    addEventListener("keydown", (event) => this.key(event), { signal });
    addEventListener("resize", () => this.freeHeight(), { signal });
    signal.addEventListener("abort", () => {
      this.playing = null;
    });
  }

  build(view) {
    this.tableNode = el("div");
    this.handNode = el("div");
    this.hintNode = el("div", { "aria-live": "polite" });
    this.logNode = el("ol", { className: "log", tabIndex: 0, ariaLabel: "Events" });
    this.results = el("div");
    this.left = el(
      "section",
      { "aria-label": "Table" },
      this.tableNode,
      this.handNode,
      this.buildControls(),
      this.hintNode,
    );
    this.history = el(
      "section",
      { className: "panel", "aria-label": "History" },
      el("h2", {}, "History"),
      this.logNode,
      this.results,
    );
    this.options = this.buildOptions();
    this.newMatch = new MatchForm(this.me.players.daihinmin, !this.me.match, () => this.start());
    this.recorded = new RecordedForm(
      () => this.openRecorded(),
      () => this.openOwn(),
    );
    const forms = [this.options, this.newMatch.node, this.recorded.node, rules()];
    this.right = el("div", {}, this.history, ...forms);
    this.first = el("div", {}, this.left);
    view.append(el("div", { className: "columns" }, this.first, this.right));
    this.arrange();
  }

  // Puts the form for a match first as long as there is nothing else to see.
  arrange() {
    const isEmpty = !this.state && !this.stepper;
    this.history.hidden = isEmpty;
    if (isEmpty) this.first.prepend(this.newMatch.node);
    else if (this.newMatch.node.parentNode !== this.right) this.options.after(this.newMatch.node);
  }

  // The buttons, of which each moment shows some: they stay, and keep the focus and clicks.
  buildControls() {
    const className = "main";
    this.buttons = {
      give: button("Give (Enter)", () => this.confirm(), { className }),
      pass: button("Pass (P)", () => this.play(0)),
      hint: button("Hint (?)", () => this.hint()),
      next: button("Next game (Enter)", () => this.change("next"), { className }),
      flow: button("Continue", () => (this.playing ? this.pause() : this.go()), { className }),
      step: button("Step", () => this.step()),
    };
    this.playsNode = el("span", { className: "row" });
    this.endNode = el("strong", { hidden: true }, "The match is over.");
    this.flowNode = el(
      "div",
      { className: "row", hidden: true },
      this.playsNode,
      ...Object.values(this.buttons),
      this.endNode,
    );
    this.stepNode = el("div", { className: "row" });
    return el("div", {}, this.flowNode, this.stepNode);
  }

  buildOptions() {
    this.helper = new PlayerChoice("Hints by", this.me.players.daihinmin, "hints-daihinmin", {
      name: "daihinmin-mc",
      settings: { playouts: 500 },
    });
    this.reveal = el("input", { type: "checkbox", disabled: true, onchange: () => this.refresh() });
    this.revealNote = el("p", { className: "dim" });
    this.speed = el(
      "select",
      {},
      ...[
        [0, "at once"],
        [300, "fast"],
        [900, "normal"],
        [2000, "slow"],
      ].map(([ms, text]) => el("option", { value: ms }, text)),
    );
    this.speed.value = localStorage.getItem("speed-daihinmin") || "900";
    this.speed.addEventListener("change", () => localStorage.setItem("speed-daihinmin", this.speed.value));
    return el(
      "section",
      { className: "panel", "aria-label": "Options" },
      this.helper.node,
      label("Speed", this.speed),
      label("show all hands", this.reveal),
      this.revealNote,
    );
  }

  async start() {
    const body = await attempt(() => this.newMatch.body());
    if (!body || (isRunning(this.state) && !confirm(GIVE_UP))) return;
    await this.pause();
    if (await this.inOrder(() => this.startWith(body))) this.go();
  }

  async startWith(body) {
    const state = await attempt(() => begin("daihinmin/new", body, this.state));
    if (!state) return undefined;
    this.expected = null;
    this.stepNode.replaceChildren();
    this.stepper = null;
    this.events = [];
    this.logNode.replaceChildren();
    this.newMatch.close();
    this.hintNode.replaceChildren();
    await this.happened(state);
    return state;
  }

  // Runs an action that changes the shown match when those before it have ended.
  inOrder(action) {
    const result = this.last.then(action);
    this.last = result.catch(() => {});
    return result;
  }

  // Shows seats and field, as high as before while cards are laid: the buttons below stay in place.
  showTable(position, names) {
    const nLeft = position.left.reduce((sum, each) => sum + each);
    if (nLeft > this.nLeft) this.freeHeight(); // another game
    this.nLeft = nLeft;
    this.tableNode.replaceChildren(tableNode(position, names));
    this.tableNode.style.minHeight = `${this.tableNode.offsetHeight}px`;
  }

  freeHeight() {
    this.tableNode.style.minHeight = "";
  }

  // Shows a match; the hands of others only if they are asked for.
  async show(state) {
    const isSame = this.state?.turn === state.turn && this.state.seed === state.seed;
    this.state = await this.withHands(state);
    if (this.stepper) return;
    this.arrange();
    this.showLog();
    const hands = this.state.hands.map((hand, player) => (player === state.visitor ? null : hand));
    this.showTable({ ...state, hands }, state.names);
    if (!isSame) this.select([]);
    this.showHand();
    this.showResults();
    this.showReveal();
  }

  async withHands(state) {
    if (!this.reveal.checked || state.hands.every(Boolean)) return state;
    const all = await attempt(() => get("daihinmin?reveal=true"));
    return all?.turn === state.turn ? { ...state, hands: all.hands } : state;
  }

  // Says when there are hands to show.
  showReveal() {
    this.reveal.disabled = !this.state || this.state.visitor === null;
    this.revealNote.textContent = !this.state
      ? ""
      : this.reveal.disabled
        ? "You watch, and see all hands."
        : "";
  }

  refresh() {
    return this.inOrder(async () => {
      const state = await attempt(() => get(`daihinmin?reveal=${this.reveal.checked}`));
      if (state) await this.showWhole(state);
    });
  }

  // Shows a match with all that happened in it.
  async showWhole(state) {
    this.events = state.history.map((text) => named(text, state.names));
    this.logNode.replaceChildren();
    await this.show(state);
  }

  // After a refusal: shows the position of the server, with what the refusal said.
  async catchUp() {
    const why = messageText();
    const state = await get(`daihinmin?reveal=${this.reveal.checked}`).catch(() => null);
    if (!state || this.signal.aborted) return;
    const isSame = state.turn === this.state.turn && state.seed === this.state.seed;
    if (!isSame) await this.showWhole(state);
    message(why);
  }

  showLog() {
    const added = this.events.slice(this.logNode.childElementCount);
    this.logNode.append(...added.map((text) => el("li", {}, text)));
    this.logNode.scrollTop = this.logNode.scrollHeight;
  }

  showResults() {
    const { names, results, points, number: game, n_games } = this.state;
    const rows = names.map((name, player) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, name),
        el("td", {}, points[player]),
        el("td", {}, results.map((places) => places[player] + 1).join(" ")),
      ),
    );
    const heads = ["player", "points", "places"];
    this.results.replaceChildren(
      el("h3", {}, `Game ${game} of ${n_games}`),
      scroll("Results of the match", tableOf(heads, rows)),
      this.comparison(results),
    );
  }

  // Says whether the leaderboard's game had the places of its row.
  comparison(results) {
    const { number: game, places } = this.expected || {};
    if (!game || results.length < game) return "";
    const same = places.every((place, player) => place === results[game - 1][player]);
    return el(
      "p",
      {},
      `Places on the leaderboard in game ${game}: ${places.map((each) => each + 1).join(" ")}, ${same ? "the same" : "different"} here.`,
    );
  }

  // Selects cards, for the play of a hint if it has one.
  select(cards, play = null) {
    this.selected = new Set(cards);
    this.hinted = play;
  }

  // The legal plays that contain all selected cards.
  matching() {
    return this.state.legal.filter((play) => [...this.selected].every((card) => play.cards.includes(card)));
  }

  // The legal plays of the selected cards alone, that of a hint first.
  exact() {
    const plays = this.matching().filter((each) => each.cards.length === this.selected.size);
    return plays.sort((a, b) => (b.play === this.hinted) - (a.play === this.hinted));
  }

  showHand() {
    const state = this.state;
    if (this.stepper) return undefined;
    this.flowNode.hidden = false;
    if (state.visitor === null || !state.hands[0]) {
      this.handNode.replaceChildren();
      return this.showFlow();
    }
    const toGive = state.to_give;
    const usable = new Set(
      toGive && state.is_mine ? state.hands[0] : this.matching().flatMap((play) => play.cards),
    );
    const order = [...state.hands[0]].sort((a, b) => a - b);
    const focused = document.activeElement?.dataset?.card;
    const can = toGive ? "can be given" : "can be played";
    const cards = order.map((card) =>
      cardNode(
        card,
        {
          className: usable.has(card) && state.is_mine ? "usable" : "",
          title: usable.has(card) && state.is_mine ? can : "",
          "aria-pressed": String(this.selected.has(card)),
          disabled: !state.is_mine,
        },
        () => this.toggle(card),
      ),
    );
    cards.forEach((node, i) => {
      node.dataset.card = order[i];
    });
    const asked = toGive
      ? `Choose ${toGive} card${toGive > 1 ? "s" : ""} to give away`
      : usable.size
        ? "Your turn: choose cards, then play them"
        : this.selected.size
          ? "Your turn: no legal play has these cards"
          : "Your turn: only a pass is possible";
    const place = state.places[0]; // of a game that has ended for the visitor
    const text = state.is_mine ? asked : place ? `You came ${place}` : "Your hand";
    const does = toGive ? "gives the selected ones" : "plays the selected ones, P passes";
    const keys = el(
      "p",
      { className: "dim keys", hidden: Boolean(place) },
      `Keys: ← and → go to a card, Enter selects it, Enter again ${does}, ? hints, Esc pauses the other players.`,
    );
    this.handNode.replaceChildren(
      el("h2", {}, text),
      el(
        "div",
        { className: "cards", role: "group", ariaLabel: "Your hand; highlighted cards can be played" },
        ...cards,
      ),
      keys,
    );
    if (focused !== undefined) this.handNode.querySelector(`[data-card="${focused}"]`)?.focus();
    return this.showFlow();
  }

  showFlow() {
    const { is_mine: isMine, to_give: toGive, over, match_over: isEnd } = this.state;
    const isOthers = !isMine && !over;
    const shown = {
      give: isMine && toGive,
      pass: isMine && !toGive,
      hint: isMine,
      next: over && !isEnd,
      flow: isOthers,
      step: isOthers,
    };
    for (const [name, node] of Object.entries(this.buttons)) node.hidden = !shown[name];
    this.buttons.give.disabled = this.selected.size !== toGive;
    this.buttons.flow.textContent = this.playing ? "Pause" : "Continue";
    this.endNode.hidden = !isEnd;
    const plays = isMine && !toGive && this.selected.size ? this.exact() : [];
    this.playsNode.replaceChildren(
      ...plays.map((each) =>
        button(`Play ${pretty(each.text)}`, () => this.play(each.play), { className: "main" }),
      ),
    );
  }

  toggle(card) {
    this.hinted = null;
    if (!this.selected.delete(card)) this.selected.add(card);
    const limit = this.state.to_give;
    if (limit && this.selected.size > limit) this.selected.delete([...this.selected][0]);
    if (!limit && this.selected.size && !this.matching().length) this.select([card]);
    this.showHand();
    say(
      `${cardName(card)} ${this.selected.has(card) ? "selected" : "not selected"}. ${this.exact()
        .map((each) => pretty(each.text))
        .join(", ")}`,
    );
  }

  confirm() {
    if (this.state.to_give)
      return this.selected.size === this.state.to_give && this.change("give", { cards: [...this.selected] });
    const plays = this.selected.size ? this.exact() : [];
    if (this.selected.size && !plays.length) return say("No legal play has exactly these cards.");
    if (plays.length > 1 && plays[0].play !== this.hinted) {
      say(`These cards make ${plays.length} plays: choose one.`);
      return this.playsNode.querySelector("button").focus();
    }
    return plays.length && this.play(plays[0].play);
  }

  play(number) {
    return this.change("play", { play: number });
  }

  // Makes a change of the visitor, once at a time, and lets the others play.
  async change(kind, body = {}) {
    if (this.isChanging) return undefined;
    this.isChanging = true;
    const state = await this.send(() => post(`daihinmin/${kind}`, { ...body, turn: this.state.turn }));
    this.isChanging = false;
    if (!state) return undefined;
    this.hintNode.replaceChildren();
    return this.go();
  }

  // Sends a change and shows the match after it; after a refusal, its position on the server.
  send(change) {
    return this.inOrder(async () => {
      const state = await attempt(change);
      await (state ? this.happened(state) : this.catchUp());
      return state;
    });
  }

  async happened(state) {
    const texts = state.events.map((text) => named(text, state.names));
    this.events.push(...texts);
    say(texts.join(" "));
    await this.show(state);
  }

  // Lets the others play until it is the visitor's turn.
  async go() {
    if (this.signal.aborted) return;
    const me = (this.playing = {});
    this.showHand();
    while (this.playing === me && !this.state.over && !this.state.is_mine) {
      const start = performance.now();
      if (!(await this.advance())) break;
      await wait(Math.max(25, Number(this.speed.value) - (performance.now() - start)));
    }
    if (this.playing === me) this.playing = null;
    this.showHand();
    this.takeFocus();
  }

  // Gives the focus to the hand at the visitor's turn, unless it is elsewhere on the page.
  takeFocus() {
    const { activeElement } = document;
    const isFree = activeElement === document.body || this.left.contains(activeElement);
    if (this.state.is_mine && !this.stepper && isFree) this.handNode.querySelector("button")?.focus();
  }

  pause() {
    this.playing = null;
    if (this.state) this.showHand();
    return stopThinking();
  }

  async step() {
    await this.rest();
    if (!this.state.over && !this.state.is_mine) await this.advance();
    this.takeFocus();
  }

  // Asks for the next play of the others, once at a time.
  advance() {
    this.advancing ||= this.send(() => think("daihinmin/advance", { turn: this.state.turn })).finally(() => {
      this.advancing = null;
    });
    return this.advancing;
  }

  async hint() {
    if (this.isAsking) return;
    this.isAsking = true;
    const { turn } = this.state;
    this.hintNode.replaceChildren(el("p", { className: "dim" }, thinking(this.helper.player)));
    const hint = await attempt(() => think("daihinmin/hint", { player: this.helper.spec() }));
    this.isAsking = false;
    this.hintNode.replaceChildren();
    if (!hint) return void this.inOrder(() => this.catchUp());
    if (this.state.turn !== turn || this.stepper) return; // the visitor has gone on meanwhile
    if (hint.turn === turn) return void this.showHint(hint);
    message("The match was continued in another window; this is its position now.");
    await this.inOrder(() => this.catchUp());
  }

  showHint(hint) {
    this.select(hint.cards, hint.play);
    this.showHand();
    if (document.activeElement.matches(".card")) this.handNode.querySelector("[aria-pressed=true]")?.focus(); // Enter plays it
    const rows = hint.listed.map((each) =>
      el(
        "tr",
        {},
        el("td", {}, pretty(each.text)),
        el(
          "td",
          {},
          each.places ? each.places.map((p) => number(100 * p)).join(" / ") : number(each.value, 2),
        ),
        el("td", {}, each.visits == null ? "" : number(each.visits)),
      ),
    );
    const heads = hint.listed[0]?.places
      ? ["action", "places 1 to 5 (%)", "playouts"]
      : ["action", "expected points above last place (rest of the cycle)", "playouts"];
    this.hintNode.append(
      el("p", {}, "Hint: ", el("strong", {}, pretty(hint.text)), ` (${number(1000 * hint.seconds, 1)} ms)`),
    );
    if (rows.length > 1) this.hintNode.append(scroll("What the player thinks", tableOf(heads, rows)));
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || takesKey(event)) return;
    if (this.stepper) return void this.stepper.key(event);
    if (!this.state) return;
    const key = event.key.toLowerCase();
    if (event.repeat && /^[p?]$/.test(key)) return; // a held key passes once
    const cards = [...this.handNode.querySelectorAll("button")];
    const isEnter =
      key === "enter" &&
      !event.repeat &&
      !event.target.closest("a, summary, button:not(.card), .card[aria-pressed=false]"); // which use it themselves
    if (key === "enter" && event.repeat && event.target.matches(".card")) return void event.preventDefault();
    const isLeft = key === "arrowleft";
    const at = Math.max(cards.indexOf(document.activeElement), isLeft ? 0 : -1);
    if ((key === "arrowright" || isLeft) && cards.length)
      cards.at((at + (isLeft ? -1 : 1)) % cards.length).focus();
    else if (key === "?" && this.state.is_mine) this.hint();
    else if (key === "p" && this.state.is_mine && !this.state.to_give) this.play(0);
    else if (isEnter && this.state.is_mine && this.selected.size) this.confirm();
    else if (isEnter && this.state.over && !this.state.match_over) this.change("next");
    else if (key === "escape") this.pause();
    else return;
    event.preventDefault();
  }

  // Recorded games

  async openOwn() {
    await this.rest();
    const game = await attempt(() => get("daihinmin/steps"));
    if (game && !this.signal.aborted) this.showSteps(game);
  }

  // Lets the others play no further, and waits for their last play: there is one search at a time.
  rest() {
    this.playing = null;
    return this.advancing;
  }

  async openRecorded() {
    await attempt(async () => {
      const game = await this.recorded.game();
      await this.rest();
      const steps = await think("daihinmin/recorded", { game });
      if (!this.signal.aborted) this.showSteps(steps);
    });
  }

  showSteps(game) {
    this.playing = null;
    this.flowNode.hidden = true;
    this.results.replaceChildren();
    this.stepper = new Stepper(this, game);
    this.arrange();
    this.left.scrollIntoView();
    this.stepper.go(0);
    say(this.stepper.text.textContent);
  }

  // Shows the match again.
  async closeSteps() {
    this.stepper = null;
    for (const node of [this.stepNode, this.handNode, this.tableNode, this.logNode]) node.replaceChildren();
    this.freeHeight();
    this.arrange();
    if (this.state) await this.refresh();
    if (document.activeElement === document.body)
      (this.handNode.querySelector("button:enabled") || this.recorded.summary).focus();
  }
}

export async function open(view, me, [action, game, places], signal) {
  const table = new Table(view, me, signal);
  if (places) table.expected = { number: Number(game), places: places.split("-").map(Number) };
  table.showReveal();
  if (!me.match) return undefined;
  await table.refresh();
  if (action !== "watch" || !table.state || signal.aborted) return undefined;
  history.replaceState(null, "", "#daihinmin");
  return void table.go();
}
