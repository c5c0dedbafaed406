// The view of the leaderboard: sortable tables, and rows that are played again.

import { GIVE_UP, isRunning } from "./daihinmin.js";
import { attempt, begin, button, el, get, number, scroll, tableOf } from "./dom.js";

const LOADING = "Loading the results ...";
const TABLES = "https://github.com/afterstate/afterstate/blob/main/docs/leaderboard.md";
const SHARES = new Set([
  "2048",
  "4096",
  "8192",
  "16384",
  "32768",
  "65536",
  "1st",
  "2nd",
  "3rd",
  "4th",
  "5th",
]);

function columns(game, results) {
  const shares = Object.keys(results[0]).filter((key) => SHARES.has(key) || key.startsWith("daihinmin-"));
  return [
    { key: "name", text: "player" },
    {
      key: "mean",
      text: game === "2048" ? "mean score (95% interval)" : "points per 100 games (95% interval)",
      show: (r) => `${number(r.mean)} (${number(r.low)} to ${number(r.high)})`,
    },
    { key: "games", text: "games", show: (r) => number(r.games) },
    {
      key: "cpu_seconds_each",
      text: "CPU time per move (ms)",
      show: (r) => number(1000 * r.cpu_seconds_each, 3),
    },
    ...shares.map((key) => ({
      key,
      text: key.startsWith("daihinmin-")
        ? `ahead of ${key.slice(10)} (%)`
        : `${game === "2048" ? `reach ${key}` : key} (%)`,
      show: (r) => number(100 * r[key], 1),
    })),
  ];
}

// Means with their intervals, under the name of each player.
function figure(results, unit) {
  const high = Math.max(...results.map((each) => each.high));
  const height = 34 * results.length + 40;
  const svg = el("svg", {
    viewBox: `0 0 360 ${height}`,
    class: "intervals",
    role: "img",
    "aria-label": "Means with 95% intervals; the table has the numbers.",
  });
  const x = (value) => 8 + (344 * value) / high;
  const end = { "text-anchor": "end" };
  svg.append(
    el("text", { x: 4, y: height - 6 }, "0"),
    el("text", { x: 180, y: height - 6, "text-anchor": "middle" }, unit),
    el("text", { x: 354, y: height - 6, ...end }, number(high)),
  );
  results.forEach((each, i) => {
    const y = 28 + 34 * i;
    svg.append(
      el("text", { x: 4, y: y - 10 }, each.name),
      el("text", { x: 354, y: y - 10, ...end }, number(each.mean)),
      el("line", { x1: x(0), y1: y, x2: x(high), y2: y, class: "axis" }),
      el("line", { x1: x(each.low), y1: y, x2: x(each.high), y2: y, "stroke-width": 3 }),
      el("circle", { cx: x(each.mean), cy: y, r: 4 }),
    );
  });
  return svg;
}

function settingsText(player) {
  return Object.entries(player.settings)
    .map(([name, value]) => `${name}=${value}`)
    .join(",");
}

class Leaderboard {
  constructor(game, table, signal) {
    this.game = game;
    this.table = table;
    this.signal = signal;
    this.last = 0; // number of the last request of a visitor; answers to earlier ones come too late
    this.sorted = { key: "mean", down: true };
    this.body = el("tbody");
    this.rows = el("div", { "aria-live": "polite" });
    this.heads = columns(game, table.results).map((column) => {
      const head = el(
        "th",
        { scope: "col" },
        button(column.text, () => this.sort(column.key)),
      );
      return { ...column, head };
    });
    this.figure = el("div");
    this.node = el(
      "section",
      { className: "panel", "aria-label": game },
      el("h2", {}, game === "2048" ? "2048" : "Daihinmin"),
      el("details", {}, el("summary", {}, "Figure"), this.figure),
      scroll(
        `Results of ${game}`,
        el(
          "table",
          { className: "names" },
          el(
            "thead",
            {},
            el(
              "tr",
              {},
              this.heads[0].head,
              el("th", { scope: "col" }, "watch"),
              ...this.heads.slice(1).map((each) => each.head),
            ),
          ),
          this.body,
        ),
      ),
      this.rows,
    );
    this.show();
  }

  sort(key) {
    this.sorted = {
      key,
      down: this.sorted.key === key ? !this.sorted.down : key !== "name" && key !== "cpu_seconds_each",
    };
    this.show();
  }

  show() {
    const { key, down } = this.sorted;
    const order = [...this.table.results].sort(
      (a, b) => (key === "name" ? a.name.localeCompare(b.name) : a[key] - b[key]) * (down ? -1 : 1),
    );
    for (const each of this.heads)
      each.head.setAttribute("aria-sort", each.key === key ? (down ? "descending" : "ascending") : "none");
    this.body.replaceChildren(
      ...order.map((result) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, result.name),
          el(
            "td",
            {},
            button("Watch", () => this.watchFirst(result), {
              ariaLabel: `Watch ${result.name}`,
              hidden: !result.player,
            }),
            " ",
            button("Games", () => this.open(result, 0), { ariaLabel: `Games of ${result.name}` }),
          ),
          ...this.heads.slice(1).map((each) => el("td", {}, each.show(result))),
        ),
      ),
    );
    this.figure.replaceChildren(
      figure(order, this.game === "2048" ? "mean score" : "points per 100 games"),
    );
  }

  // Returns the answer to the last request of the visitor, nothing if it comes too late.
  async current(request) {
    const number = (this.last += 1);
    const isLast = () => number === this.last && !this.signal.aborted;
    const answer = await attempt(() =>
      request().catch((error) => {
        if (isLast()) throw error;
      }),
    );
    return isLast() ? answer : undefined;
  }

  played(result, first) {
    return this.current(() =>
      get(`leaderboard/${this.game}/rows?name=${encodeURIComponent(result.name)}&first=${first}`),
    );
  }

  async open(result, first) {
    const loading = el("p", { className: "dim" }, LOADING);
    this.rows.replaceChildren(loading);
    const part = await this.played(result, first);
    loading.remove();
    if (!part) return;
    const name = encodeURIComponent(result.name);
    history.replaceState(null, "", `#leaderboard/${this.game}/${name}/${first}`); // for the way back
    const list = part.rows.map((row) => el("tr", {}, ...this.cells(row, result)));
    const heads =
      this.game === "2048"
        ? ["seed", "score", "largest tile", "moves", "replay"]
        : ["seed", "game", "place", "watch"];
    const more = el(
      "div",
      { className: "row" },
      button("Earlier", () => this.open(result, Math.max(0, first - part.shown)), { disabled: first === 0 }),
      button("Later", () => this.open(result, first + part.shown), {
        disabled: first + part.shown >= part.n,
      }),
      `games ${number(first + 1)} to ${number(first + part.rows.length)} of ${number(part.n)}`,
    );
    const note = result.player
      ? null
      : el(
          "p",
          { className: "dim" },
          "The moves of this player depend on the clock, or its network is not installed: its games cannot be replayed.",
        );
    const head = el("h3", { tabIndex: -1 }, `Games of ${result.name}`);
    this.rows.replaceChildren(head, note || "", scroll("Games", tableOf(heads, list)), more);
    head.focus({ preventScroll: true });
    this.rows.scrollIntoView({ block: "nearest" });
  }

  cells(row, result) {
    const td = (text) => el("td", {}, text);
    if (this.game === "2048") {
      const link = result.player ? el("a", { href: replayOf(row, result) }, "Replay") : "";
      return [td(row.seed), td(number(row.score)), td(number(row.max_tile)), td(number(row.moves)), td(link)];
    }
    const place = row.places[row.players.indexOf(result.name)] + 1;
    const watch = result.player ? button("Watch from here", () => this.watch(row, result)) : "";
    return [td(row.seed), td(row.number), td(place), td(watch)];
  }

  async watchFirst(result) {
    const part = await this.played(result, 0);
    if (part) await this.watch(part.rows[0], result);
  }

  // Plays the game of a row again: of 2048 with its tiles, of Daihinmin with its cards, and its cycle from there on.
  async watch(row, result) {
    if (this.game === "2048") return void (location.hash = replayOf(row, result));
    const me = await this.current(() => get("me"));
    if (!me || (isRunning(me.match) && !confirm(GIVE_UP))) return undefined;
    const body = { name: result.name, seed: row.seed, number: row.number };
    if (await this.current(() => begin("daihinmin/watch", body, me.match)))
      location.hash = `#daihinmin/watch/${row.number}/${row.places.join("-")}`;
    return undefined;
  }
}

function replayOf(row, result) {
  return `#2048/watch/${row.seed}/${result.player.name}/${settingsText(result.player)}/${row.score}`;
}

// Says where the results are that this installation lacks.
function missing() {
  return el(
    "section",
    { className: "panel", "aria-label": "Missing results" },
    el("h2", {}, "The results are not installed"),
    el("p", {}, "Only the repository has them. Run this in a checkout of it, then start the page again:"),
    el("p", {}, el("code", {}, 'pip install --editable ".[web]"')),
    el("p", {}, "Their tables can also be read in ", el("a", { href: TABLES }, "docs/leaderboard.md"), "."),
  );
}

export async function open(view, _me, [game, name, first], signal) {
  const loading = el("p", { className: "dim" }, LOADING);
  view.append(
    el(
      "p",
      {},
      "All players play the same seeds; each row is one game. Players whose lead is not significant cannot be ranked.",
    ),
    loading,
  );
  try {
    const tables = {};
    for (const each of ["2048", "daihinmin"]) {
      tables[each] = new Leaderboard(each, await get(`leaderboard/${each}`), signal);
      loading.before(tables[each].node);
    }
    const result = tables[game]?.table.results.find((each) => encodeURIComponent(each.name) === name);
    if (result) await tables[game].open(result, Number(first) || 0);
  } catch (error) {
    if (error.status !== 404) throw error;
    view.replaceChildren(missing());
  } finally {
    loading.remove();
  }
}
