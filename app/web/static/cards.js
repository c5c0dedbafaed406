// Cards, plays and the table of Daihinmin.

import { el } from "./dom.js";

const SUITS = ["♠", "♥", "♦", "♣"];
const SUIT_NAMES = ["spades", "hearts", "diamonds", "clubs"];
const RANKS = ["3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A", "2"];
const JOKER = 52;

export const cardName = (card) =>
  card === JOKER ? "joker" : `${RANKS[card >> 2]} of ${SUIT_NAMES[card & 3]}`;

// A card on the page; with an action it can be pressed.
export function cardNode(card, props = {}, onclick = null) {
  const suit = card & 3;
  const kind = card === JOKER ? "joker" : suit === 1 || suit === 2 ? "red" : "";
  const text = card === JOKER ? "Jo" : `${RANKS[card >> 2]}${SUITS[suit]}`;
  const className = `card ${kind} ${props.className || ""}`;
  if (!onclick) return el("span", { className, role: "img", ariaLabel: cardName(card) }, text);
  return el("button", { type: "button", onclick, ...props, className, ariaLabel: cardName(card) }, text);
}

const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

// The seats and the field of a position.
export function tableNode(position, names) {
  const seats = position.seats.map((player) => {
    const hand = position.hands[player];
    const status = [
      position.places[player] || position.classes[player], // the class is that of the game before
      position.passed[player] ? "passed" : "",
    ]
      .filter(Boolean)
      .join(", ");
    const cards =
      hand && position.showHands !== false
        ? el("div", { className: "cards" }, ...hand.map((card) => cardNode(card, { className: "tiny" })))
        : null;
    return el(
      "div",
      { className: `seat ${player === position.in_turn ? "turn" : ""}` },
      el("strong", {}, names[player]),
      player === position.in_turn ? el("span", { className: "hidden" }, " in turn") : null,
      el(
        "div",
        { className: "dim" },
        `${count(position.left[player], "card")}, ${count(position.points[player], "point")}`,
      ),
      el("div", { className: "dim" }, status || "\u00a0"),
      cards,
    );
  });
  const flags = [position.revolution ? "revolution" : "", position.lock ? "lock" : ""].filter(Boolean);
  const field = position.field;
  const cards = field ? field.cards.map((card) => cardNode(card)) : [];
  const text = field
    ? `${pretty(field.text)} by ${names[position.last]}`
    : position.to_give
      ? "Cards are exchanged."
      : position.in_turn < 0
        ? "The game is over."
        : "The field is empty: any play may lead.";
  return el(
    "div",
    { className: "table" },
    el("div", { className: "seats" }, ...seats),
    el(
      "div",
      { className: "field" },
      el("div", { className: "cards" }, ...cards),
      el("p", {}, text),
      el("p", {}, ...flags.map((each) => el("span", { className: "flag" }, each))),
    ),
  );
}

// The notation of recorded games with symbols: S8 JO=HT is 8♠ joker=10♥, JO=D+ is joker above 2♦.
export const pretty = (text) =>
  text
    .replace(/\bJO=([SHDC])\+/g, "joker above $12")
    .replace(/\bJO=([SHDC])-/g, "joker below $13")
    .replace(/\bJO\b/g, "joker")
    .replace(
      /\b([SHDC])([3-9TJQKA2])(?![\w])/g,
      (_, suit, rank) => `${rank === "T" ? "10" : rank}${SUITS["SHDC".indexOf(suit)]}`,
    );
export const named = (text, names) => pretty(text).replace(/\{(\d)\}/g, (_, player) => names[player]);
