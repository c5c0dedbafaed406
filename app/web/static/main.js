// The views of the page, chosen by the address after #.

import { attempt, get, message, wait } from "./dom.js";

const VIEWS = {
  2048: () => import("./game2048.js"),
  daihinmin: () => import("./daihinmin.js"),
  leaderboard: () => import("./leaderboard.js"),
  learn: () => import("./learn.js"),
};

let close = () => {};

async function show() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const known = name in VIEWS ? name : "2048";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${known}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  close();
  close = () => {};
  document.title = `${document.querySelector("nav a[aria-current]").textContent} - afterstate`;
  await attempt(async () => {
    const me = await get("me");
    const module = await VIEWS[known]();
    const view = document.getElementById("view");
    view.replaceChildren();
    close = (await module.open(view, me, rest)) || (() => {});
    document.body.dataset.ready = known;
    if (!me.ready) loading();
  });
}

// Says that players are being loaded, until they are.
async function loading() {
  const text = "The players are being loaded; playing works already.";
  message(text);
  for (;;) {
    await wait(1000);
    const me = await get("me").catch(() => ({}));
    if (me.ready) break;
  }
  if (document.getElementById("message").textContent === text) message("");
}

addEventListener("hashchange", show);
show();
