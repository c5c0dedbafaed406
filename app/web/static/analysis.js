// A hint of a player as bars, pictures of boards, and a tree.

import { NAMES, picture, place, tileOf } from "./board.js";
import { el, number, scroll, tableOf } from "./dom.js";

const SEES = { "value-net": true, "policy-net": true };

// Returns the nodes that show a hint of a player, one of those that visitors may choose.
export function analysis(hint, player) {
  const nodes = [
    el(
      "p",
      {},
      "Best move: ",
      el("strong", {}, NAMES[hint.action]),
      ` (${number(hint.seconds * 1000, 1)} ms)`,
    ),
    moves(hint, player),
  ];
  const counts = Object.entries(hint.counts || {});
  if (counts.length)
    nodes.push(el("p", { className: "dim" }, counts.map(([name, n]) => `${number(n)} ${name}`).join(", ")));
  if (hint.line) nodes.push(line(hint));
  if (hint.outcomes) nodes.push(outcomes(hint, player.digits));
  if (hint.tree) nodes.push(el("h3", {}, "Tree"), scroll("Tree", tree(hint)));
  if (SEES[player.made]) nodes.push(el("h3", {}, "What the network sees"), planes(hint.seen));
  return nodes;
}

function moves(hint, { values: name, digits }) {
  const shown = hint.values || hint.probabilities || [];
  const legal = shown.filter((each) => each != null);
  const [low, high] = [Math.min(...legal), Math.max(...legal)];
  const isShare = Boolean(hint.probabilities);
  const relative = (value) => (high > low ? 0.02 + (0.98 * (value - low)) / (high - low) : 1);
  const rows = NAMES.map((move, action) => {
    const value = shown[action];
    const cells = [
      el("th", { scope: "row" }, move),
      el("td", {}, value == null ? "" : number(value, digits)),
    ];
    cells.push(el("td", {}, value == null ? "illegal" : number(value - high, digits)));
    if (hint.visits) cells.push(el("td", {}, number(hint.visits[action])));
    cells.push(
      el(
        "td",
        {},
        value == null
          ? ""
          : el("meter", {
              min: 0,
              max: 1,
              value: isShare ? value : relative(value),
              ariaLabel: isShare ? `Probability of ${move}` : `${move} between the worst and the best`,
            }),
      ),
    );
    return el("tr", { className: action === hint.action ? "best" : "" }, ...cells);
  });
  const heads = ["move", name, "difference from the best", ...(hint.visits ? ["visits"] : [])];
  heads.push(isShare ? "from 0 to 1" : "from worst to best");
  if (!shown.length) return el("p", { className: "dim" }, "This player gives no values.");
  const table = tableOf(heads, rows);
  if (hint.visits) table.className = "visits";
  return scroll("Values of the moves", table);
}

function line(hint) {
  const pictures = hint.line.map((step, i) => picture(step.after, `${i + 1}. ${NAMES[step.action]}`));
  return el(
    "div",
    {},
    el("h3", {}, "Principal variation"),
    el(
      "p",
      { className: "dim" },
      `Afterstates of the best moves by ${hint.by}; after each comes the 2 of the median value.`,
    ),
    el("div", { className: "strip" }, ...pictures),
  );
}

function outcomes(hint, digits) {
  const best = [...hint.outcomes].sort((a, b) => a.value - b.value);
  const mean = best.reduce((sum, each) => sum + each.probability * each.value, 0);
  const rows = best.map((each) =>
    el(
      "tr",
      {},
      el("td", {}, `${tileOf(each.exponent)} at ${place(each.cell)}`),
      el("td", {}, number(100 * each.probability, 1)),
      el("td", {}, number(each.value, digits)),
      el("td", {}, number(each.value - mean, digits)),
    ),
  );
  const heads = ["tile", "probability (%)", "value", "difference from the mean"];
  return el(
    "details",
    {},
    el(
      "summary",
      {},
      `Values by outcome of ${NAMES[hint.action]} by ${hint.by} (mean ${number(mean, digits)})`,
    ),
    scroll("Values by outcome", tableOf(heads, rows)),
  );
}

// Draws the moves of the root, their most visited outcomes, and the moves of these.
function tree(hint) {
  const leaves = (move) => Math.max(1, move.outcomes.length);
  const total = hint.tree.reduce((sum, move) => sum + leaves(move), 0);
  const [width, gap] = [640, 26];
  const height = 30 + total * gap;
  const svg = el("svg", {
    viewBox: `0 0 ${width} ${height}`,
    class: "tree",
    role: "img",
    "aria-label": treeText(hint),
  });
  const texts = []; // over the edges
  let y = 24;
  const middle = height / 2;
  for (const move of hint.tree) {
    const n = leaves(move);
    const at = y + ((n - 1) * gap) / 2;
    svg.append(
      edge(10, middle, 150, at, move.visits),
      el("rect", { x: 145, y: at - 5, width: 10, height: 10 }),
    );
    const side = at < middle ? -12 : 20; // where the edge from the root is not
    texts.push(
      el(
        "text",
        { x: 150, y: at + side, "text-anchor": "middle" },
        `${NAMES[move.action]}: ${number(move.visits)} visits, ${number(move.value)}`,
      ),
    );
    move.outcomes.forEach((outcome, i) => {
      const to = y + i * gap;
      svg.append(edge(155, at, 400, to, outcome.visits), el("circle", { cx: 400, cy: to, r: 5 }));
      const next = [...outcome.moves].sort((a, b) => b.visits - a.visits)[0];
      const best = next ? `, then ${NAMES[next.action]}` : "";
      texts.push(
        el(
          "text",
          { x: 410, y: to + 4 },
          `${number(100 * outcome.chance, 1)}%: ${number(outcome.visits)} visits, ${number(outcome.value)}${best}`,
        ),
      );
    });
    y += n * gap;
  }
  svg.append(el("circle", { cx: 10, cy: middle, r: 6 }), ...texts);
  return svg;
}

function edge(x1, y1, x2, y2, visits) {
  return el("line", { x1, y1, x2, y2, "stroke-width": Math.max(0.7, Math.log2(1 + visits) / 2) });
}

function treeText(hint) {
  return `Tree of the search. ${hint.tree.map((move) => `${NAMES[move.action]}: ${move.visits} visits, value ${Math.round(move.value)}, ${move.n_outcomes} outcomes.`).join(" ")}`;
}

// The planes of a board: for each exponent on it, the cells that have it.
function planes(board) {
  const used = [...new Set(board)].sort((a, b) => a - b);
  const note = "One plane for each exponent, 1 where a cell has it. Planes without a cell are left out.";
  const shown = used.map((exponent) => {
    const grid = [0, 4, 8, 12]
      .map((i) =>
        board
          .slice(i, i + 4)
          .map((each) => (each === exponent ? "1" : "·"))
          .join(" "),
      )
      .join("\n");
    return el(
      "figure",
      {},
      el("pre", { ariaLabel: `plane of ${tileOf(exponent) || "empty"}` }, grid),
      el("figcaption", {}, exponent ? String(tileOf(exponent)) : "empty"),
    );
  });
  return el("div", {}, el("p", { className: "dim" }, note), el("div", { className: "strip" }, ...shown));
}
