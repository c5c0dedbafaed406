// The views of the page, chosen by the address after #.

import { attempt, el, get, message, messageText, stopThinking, wait } from "./dom.js";

const VIEWS = {
  2048: () => import("./game2048.js"),
  daihinmin: () => import("./daihinmin.js"),
  leaderboard: () => import("./leaderboard.js"),
  learn: () => import("./learn.js"),
};

let shown = new AbortController(); // is aborted when another view takes its place
let isLoading = false;

async function show() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const known = Object.hasOwn(VIEWS, name) ? name : "2048";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${known}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${document.querySelector("nav a[aria-current]").textContent} - afterstate`;
  close();
  shown = new AbortController();
  await attempt(() => open(known, rest, shown.signal));
}

function close() {
  shown.abort();
  stopThinking();
}

async function open(name, rest, signal) {
  const [me, module] = await Promise.all([get("me"), VIEWS[name]()]);
  if (signal.aborted) return;
  const node = el("div");
  document.getElementById("view").replaceChildren(node);
  await module.open(node, me, rest, signal);
  if (signal.aborted) return;
  document.body.dataset.ready = name;
  if (!me.ready) loading();
}

// Says that players are being loaded, until they are.
async function loading() {
  const text =
    "The players are being loaded; playing works already, and a player that is asked answers then.";
  if (isLoading) return;
  isLoading = true;
  for (let me = {}; !me.ready; me = await get("me").catch(() => ({}))) {
    if (!messageText()) message(text);
    await wait(1000);
  }
  isLoading = false;
  if (messageText() === text) message("");
}

// The address names the view, so that this link moves the focus only.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("view").focus();
});
addEventListener("hashchange", show);
addEventListener("pagehide", close);
addEventListener("pageshow", (event) => event.persisted && show());
show();
