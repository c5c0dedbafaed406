// The form for a match of Daihinmin, and the rules in short.

import { PlayerChoice, button, el, kept, label, numberOf, onEnter, seedOf } from "./dom.js";

const PLAYERS = [
  { name: "daihinmin-heuristic" },
  { name: "daihinmin-sample" },
  { name: "daihinmin-policy" },
  { name: "daihinmin-mc", settings: { playouts: 200 } },
  { name: "daihinmin-heuristic" },
];

export class MatchForm {
  // `players` can be chosen; `start` is called by the button and Enter.
  constructor(players, isOpen, start) {
    const saved = kept("seats", []);
    this.seats = PLAYERS.map((each, i) => new PlayerChoice(`Player ${i + 1}`, players, "", saved[i] || each));
    this.watching = el("input", {
      type: "checkbox",
      onchange: () => {
        this.seats[4].node.hidden = !this.watching.checked;
      },
    });
    this.seats[4].node.hidden = true;
    this.nGames = onEnter(el("input", { type: "number", min: 1, max: 100, value: 3 }), start);
    this.seed = onEnter(el("input", { type: "number", min: 0, placeholder: "random" }), start);
    this.node = el(
      "details",
      { className: "panel", open: isOpen },
      el("summary", {}, "New match"),
      el("p", { className: "dim" }, "Choose four players, and start. You play the first seat."),
      label("watch five players instead of playing", this.watching),
      ...this.seats.map((each) => each.node),
      label("Games", this.nGames),
      label("Seed", this.seed),
      button("Start", start, { className: "main" }),
    );
  }

  // Returns the request for the match, and keeps its players for the next visit.
  body() {
    const specs = this.seats.slice(0, this.watching.checked ? 5 : 4).map((each) => each.spec());
    const body = { players: specs, seed: seedOf(this.seed), n_games: numberOf(this.nGames, "Games") };
    const saved = kept("seats", []);
    localStorage.setItem("seats", JSON.stringify([...specs, ...saved.slice(specs.length)]));
    return body;
  }

  close() {
    this.node.open = false;
    document.activeElement.blur(); // it is hidden now
  }
}

export function rules() {
  const lines = [
    "The first player without cards becomes daifugo; then come fugo, heimin, hinmin and daihinmin. Places are worth 5 to 1 points.",
    "Ranks from low to high: 3 4 5 6 7 8 9 10 J Q K A 2. The joker alone beats all of them, and is any card in a group or sequence.",
    "Plays are one card, a group of one rank, or a sequence of three or more cards of one suit. A play must be of the same kind and size as the one before, and higher.",
    "A player who passes waits until the trick ends; the last to play leads the next one.",
    "An 8 ends the trick at once (8-cut). The 3 of spades beats a joker that was played alone.",
    "Lock: when two plays in a row have the same suits, all later ones of the trick must have them.",
    "Revolution: a group of four or more, or a sequence of five or more, reverses the ranks; another one turns them back.",
    "Exchange: before the next game the daihinmin gives the daifugo the two best cards and gets two of the daifugo's choice, hinmin and fugo exchange one.",
  ];
  const items = lines.map((text) => el("li", {}, text));
  return el("details", { className: "panel" }, el("summary", {}, "Rules"), el("ul", {}, ...items));
}
