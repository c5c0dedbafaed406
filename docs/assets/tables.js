// Tables of the leaderboard sort by a column when its head is clicked.

// Number at the start of a cell, in seconds where it is a time; NaN if there is none.
function number(text) {
  const match = text.replace(/,/g, "").match(/^\s*(-?\d+(?:\.\d+)?)\s*(ns|µs|ms|s\b)?/);
  if (!match) return NaN;
  return Number(match[1]) * ({ ns: 1e-9, µs: 1e-6, ms: 1e-3 }[match[2]] ?? 1);
}

function compare(a, b) {
  const x = number(a);
  const y = number(b);
  if (Number.isNaN(x) && Number.isNaN(y)) return a.localeCompare(b);
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
  return x - y;
}

// Sort the rows; rows without a value in the column stay at the end.
function sort(table, column, descending) {
  const body = table.tBodies[0];
  const text = (row) => row.cells[column].textContent.trim();
  const rows = [...body.rows];
  const filled = rows.filter((row) => text(row) !== "");
  filled.sort((a, b) => (descending ? -1 : 1) * compare(text(a), text(b)));
  body.append(...filled, ...rows.filter((row) => text(row) === ""));
}

function makeSortable(table) {
  table.dataset.sortable = "";
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const numeric = !Number.isNaN(number(table.tBodies[0].rows[0].cells[column].textContent));
      const before = head.getAttribute("aria-sort");
      const descending = before === "none" ? numeric : before === "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sort(table, column, descending);
    });
  });
}

if (document.querySelector("h1")?.textContent.startsWith("Leaderboard")) {
  document.querySelectorAll(".md-typeset table:not([class])").forEach(makeSortable);
}
