// The rules of a move of 2048, and boards that slide. The server adds the tiles.

export const NAMES = ["up", "right", "down", "left"];

// The cells of each line, in the order in which an action slides them toward its first cell.
const LINES = [0, 1, 2, 3].map((action) =>
  [0, 1, 2, 3].map((line) =>
    [0, 1, 2, 3].map((place) => {
      const i = action === 1 || action === 2 ? 3 - place : place;
      return action % 2 === 0 ? 4 * i + line : 4 * line + i;
    }),
  ),
);

// The afterstate of an action, its reward, and where each tile goes: [from, to, whether it merges].
export function slide(board, action, top = 17) {
  const after = Array(16).fill(0);
  const moves = [];
  let reward = 0;
  for (const cells of LINES[action]) {
    let placed = 0;
    let mergeable = false;
    for (const cell of cells) {
      const tile = board[cell];
      if (!tile) continue;
      if (mergeable && after[cells[placed - 1]] === tile) {
        after[cells[placed - 1]] = Math.min(tile + 1, top);
        moves.push([cell, cells[placed - 1], true]);
        reward += 2 ** (tile + 1);
        mergeable = false;
      } else {
        after[cells[placed]] = tile;
        moves.push([cell, cells[placed], false]);
        placed += 1;
        mergeable = true;
      }
    }
  }
  return { after, reward, moves, legal: after.some((tile, cell) => tile !== board[cell]) };
}

export const tileOf = (exponent) => (exponent ? 2 ** exponent : 0);

export function describe(board) {
  const rows = [0, 4, 8, 12].map((i) =>
    board
      .slice(i, i + 4)
      .map((e) => tileOf(e) || "empty")
      .join(", "),
  );
  return `Board. ${rows.map((row, i) => `Row ${i + 1}: ${row}.`).join(" ")}`;
}

export function place(cell) {
  return `row ${Math.floor(cell / 4) + 1}, column ${(cell % 4) + 1}`;
}

// A board on the page.
export class Board {
  constructor(className = "") {
    this.node = document.createElement("div");
    this.node.className = `board ${className}`;
    this.node.setAttribute("role", "img");
    this.node.tabIndex = -1; // it takes the focus after a choice
    for (let cell = 0; cell < 16; cell++) this.node.append(this.at("hole", cell));
    this.tiles = new Map();
    this.board = Array(16).fill(0);
  }

  at(className, cell) {
    const node = document.createElement("div");
    node.className = className;
    this.move(node, cell);
    return node;
  }

  move(node, cell) {
    node.style.setProperty("--x", cell % 4);
    node.style.setProperty("--y", Math.floor(cell / 4));
  }

  show(board) {
    for (const tile of this.node.querySelectorAll(".tile")) tile.remove();
    this.tiles.clear();
    this.board = [...board];
    board.forEach((exponent, cell) => exponent && this.add(cell, exponent, ""));
    this.node.setAttribute("aria-label", describe(board));
    return this;
  }

  add(cell, exponent, kind) {
    const tile = this.at("", cell);
    this.paint(tile, exponent, kind);
    this.node.append(tile);
    this.tiles.set(cell, tile);
    this.board[cell] = exponent;
  }

  paint(tile, exponent, kind) {
    const text = String(tileOf(exponent));
    const size = { 4: "long", 5: "longer", 6: "longest" }[text.length] || "";
    tile.className = `tile e${exponent} ${size} ${kind}`;
    tile.textContent = text;
  }

  // Starts the motion of a move at once, and returns what was played.
  slide(action) {
    const played = slide(this.board, action);
    if (!played.legal) return played;
    const tiles = new Map();
    for (const [from, to, merges] of played.moves) {
      const tile = this.tiles.get(from);
      this.move(tile, to);
      if (merges) {
        const kept = tiles.get(to);
        setTimeout(() => tile.remove(), 90);
        this.paint(kept, played.after[to], "merged");
      } else {
        tile.className = tile.className.replace(/ (new|merged)/g, "");
        tiles.set(to, tile);
      }
    }
    this.tiles = tiles;
    this.board = played.after;
    this.node.setAttribute("aria-label", describe(played.after));
    return played;
  }

  spawn(tile) {
    this.add(tile.cell, tile.exponent, "new");
    this.node.setAttribute("aria-label", describe(this.board));
  }
}

export function picture(board, caption = "") {
  const figure = document.createElement("figure");
  figure.append(new Board("small").show(board).node);
  if (caption) figure.append(Object.assign(document.createElement("figcaption"), { textContent: caption }));
  return figure;
}
