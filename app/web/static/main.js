// The views of the page, chosen by the address after #.

import * as daihinmin from "./daihinmin.js";
import * as game2048 from "./game2048.js";
import * as leaderboard from "./leaderboard.js";
import * as learn from "./learn.js";
import { attempt, el, get, loading, message, say, stopThinking, wait } from "./dom.js";

const VIEWS = { 2048: game2048, daihinmin, leaderboard, learn };

let shown = new AbortController(); // is aborted when another view takes its place
let next = shown; // the view that is being opened, or the shown one
let hadFocus = false; // true if a view that is being replaced had the focus

const view = document.getElementById("view");

// The view of the address and what follows it; an unknown view is replaced by 2048.
function address() {
  const parts = location.hash.slice(1).split("/");
  if (Object.hasOwn(VIEWS, parts[0])) return parts;
  if (location.hash) history.replaceState(null, "", "#2048");
  return ["2048"];
}

// Shows the view of the address; until the server answers, the one before it remains, and does nothing.
async function show() {
  const [name, ...rest] = address();
  const wanted = (next = new AbortController());
  close();
  mark(name);
  hadFocus ||= view.contains(document.activeElement);
  view.inert = view.ariaBusy = true;
  for (;;) {
    const state = await get("me").catch((error) => void message(error.message));
    if (next !== wanted) return; // another view is wanted meanwhile
    if (state) return void (await attempt(() => open(name, rest, state)));
    await wait(1000);
    if (next !== wanted) return;
  }
}

function close() {
  shown.abort();
  stopThinking();
}

async function open(name, rest, me) {
  shown = next;
  const { signal } = shown;
  const node = el("div");
  view.replaceChildren(node);
  view.inert = view.ariaBusy = false;
  if (hadFocus) view.focus();
  hadFocus = false;
  await VIEWS[name].open(node, me, rest, signal).catch((error) => {
    if (!signal.aborted) throw error;
  });
  if (signal.aborted) return;
  document.body.dataset.ready = name;
  loading(me);
}

// Marks the link of the view, and says its name.
function mark(name) {
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const title = document.querySelector("nav a[aria-current]").textContent;
  document.title = `${title} - afterstate`;
  say(title);
}

// The address names the view, so that this link moves the focus only.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  view.focus();
});
addEventListener("hashchange", show);
addEventListener("pagehide", close);
addEventListener("pageshow", (event) => event.persisted && show());
show();
