// Elements, requests, messages, fields and the choice of a player.

export function el(tag, props = {}, ...children) {
  const svg = ["svg", "line", "circle", "rect", "text", "polyline", "title"].includes(tag);
  const node = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && !svg && name !== "list") node[name] = value;
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((each) => each != null));
  return node;
}

// A table with a line of heads; rows are elements.
export function tableOf(heads, rows) {
  const cells = heads.map((each) => el("th", { scope: "col" }, each));
  return el("table", {}, el("thead", {}, el("tr", {}, ...cells)), el("tbody", {}, ...rows));
}

// Something that may be too wide, which keys can scroll.
export function scroll(name, ...children) {
  return el("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: name }, ...children);
}

let n_labels = 0;

// An input with its label before it, or after a box to check.
export function label(text, input) {
  input.id = `input-${(n_labels += 1)}`;
  const node = el("label", { htmlFor: input.id }, text);
  if (input.type === "checkbox") return el("div", { className: "row check" }, input, node);
  return el("div", { className: "row" }, node, input);
}

export function button(text, onclick, props = {}) {
  return el("button", { type: "button", onclick, ...props }, text);
}

// Says what is wrong, until the next action.
export function message(text) {
  write("message", text);
}

// Says what lasts, such as that players load.
export function notice(text) {
  write("notice", text);
}

// Writes a text once: a text that is written again is spoken again.
function write(id, text) {
  const node = document.getElementById(id);
  if (node.textContent !== text) node.textContent = text;
}

export const messageText = () => document.getElementById("message").textContent;

// For screen readers: the text is spoken, and not seen.
export function say(text) {
  document.getElementById("status").textContent = text;
}

class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export const AWAY = "The server does not answer. Is it running?";

export function get(path) {
  return send(path);
}

export function post(path, body = {}) {
  const headers = { "Content-Type": "application/json" };
  return send(path, { method: "POST", headers, body: JSON.stringify(body) });
}

// The answer to a request; browsers differ in what they say if there is none.
async function send(path, options) {
  const response = await fetch(`/api/${path}`, options).catch(() => {
    throw new Error(AWAY);
  });
  return answer(response);
}

// What is said while a player thinks.
export function thinking(player) {
  if (document.body.dataset.loading) return "waiting until the players are loaded ...";
  return player.needs_torch ? "thinking ... (the first search also loads the player)" : "thinking ...";
}

// Says that players are being loaded, until they are or cannot be, and what is compiled for them.
export async function loading(me) {
  if (document.body.dataset.loading) return;
  document.body.dataset.loading = "true";
  for (; !me?.ready && !me?.failed; me = await get("me").catch(() => null)) {
    notice(me ? loadingText(me.compiling) : AWAY);
    await wait(1000);
  }
  delete document.body.dataset.loading;
  notice(me.failed ? "The players cannot be loaded: the log of the server says why." : "");
}

function loadingText(compiling) {
  const what = compiling ? ` (${compiling}; a minute or two in all)` : "";
  return `Players are still loading${what}. You can play already; hints arrive once they are loaded.`;
}

let n_thinking = 0; // requests of this page that let a player think

// Lets a player think; one that is slow may have to be loaded first, after a restart of the server.
export async function think(path, body) {
  n_thinking += 1;
  const slow = setTimeout(() => get("me").then(loading, () => {}), 1000);
  try {
    return await post(path, body);
  } finally {
    clearTimeout(slow);
    n_thinking -= 1;
  }
}

// Stops what this page, which may be left, lets a player think; not what another window does.
export async function stopThinking() {
  if (!n_thinking) return;
  const headers = { "Content-Type": "application/json" };
  await fetch("/api/stop", { method: "POST", headers, body: "{}", keepalive: true }).catch(() => {});
}

// Starts a game in place of the one that is shown; asks first if another window has one that runs.
export async function begin(path, body, shown) {
  try {
    return await post(path, { ...body, turn: shown?.turn ?? -1 });
  } catch (error) {
    if (error.status !== 409) throw error;
  }
  return confirm("Give up the current game in another window?") ? post(path, body) : undefined;
}

async function answer(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    body = { detail: `the server answered ${response.status}` };
  }
  if (!response.ok) throw new Refused(response.status, body.detail || String(response.status));
  return body;
}

// Runs an action of the user; an error becomes a message.
export async function attempt(action) {
  try {
    message("");
    return await action();
  } catch (error) {
    if (error.status !== 499) message(error.message); // else the user stopped the search
    return undefined;
  }
}

// The seed of an input: null, for a random one, if it is empty.
export function seedOf(input) {
  const seed = Number(input.value);
  if (input.validity.badInput || !Number.isSafeInteger(seed) || seed < 0)
    throw new Error(`seed must be a whole number from 0 to ${number(Number.MAX_SAFE_INTEGER)}`);
  return input.value === "" ? null : seed;
}

// The number of an input, within its bounds.
export function numberOf(input, name) {
  const { value, min, max, step, validity } = input;
  if (value !== "" && validity.valid) return Number(value);
  const given = validity.badInput ? "no number" : value === "" ? "nothing" : value;
  const kind = step === "any" ? "a number" : "a whole number";
  throw new Error(
    `${name} must be ${kind} ${max === "" ? `from ${min} on` : `from ${min} to ${max}`}, got ${given}`,
  );
}

// An input whose Enter key does what its button does.
export function onEnter(input, action) {
  input.addEventListener("keydown", (event) => event.key === "Enter" && !event.repeat && action());
  return input;
}

// True for a key that the element with the focus uses itself.
export function takesKey({ target, key }) {
  if (key === "Escape") return false;
  if (target.matches("input[type=range]")) return /^(Arrow|Page|Home|End)/.test(key);
  return target.matches("select, textarea, input:not([type=checkbox]), .scroll");
}

export const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export function number(value, digits = 0) {
  if (value == null) return "";
  const text = value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
  return /^-[0.]+$/.test(text) ? text.slice(1) : text;
}

// What the browser has kept, or another value if it has none or it is damaged.
export function kept(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function isAllowed(setting, value) {
  return Object.keys(setting.choices).includes(value) || (value >= setting.low && value <= setting.high);
}

// The values of a setting in words.
function allowed({ choices, low, high }) {
  const names = Object.keys(choices);
  return names.length ? `one of ${names.join(", ")}` : `from ${low} to ${high}`;
}

// A choice of a player with its settings; `spec()` is what requests contain.
export class PlayerChoice {
  constructor(text, listed, key, initial) {
    this.listed = listed;
    this.key = key;
    this.inputs = {};
    const { name, settings } = (key ? kept(key, initial) : initial) || {};
    this.select = el("select", {
      onchange: () => {
        this.show({});
        this.save();
      },
    });
    for (const each of listed) this.select.append(el("option", { value: each.name }, each.label));
    this.fields = el("div");
    this.node = el("div", {}, label(text, this.select), this.fields);
    this.use(name, settings);
  }

  // Shows a player; it is not saved, as one that the visitor chooses.
  use(name, settings = {}) {
    if (this.listed.some((each) => each.name === name)) this.select.value = name;
    this.show(settings);
  }

  get player() {
    return this.listed.find((each) => each.name === this.select.value);
  }

  // Says what is wrong with the settings of a player, nothing if they are right.
  wrongOf(name, values) {
    const { settings } = this.listed.find((each) => each.name === name);
    const known = Object.fromEntries(settings.map((each) => [each.name, each]));
    for (const [key, value] of Object.entries(values)) {
      if (!known[key]) return `${name} has no setting ${key}`;
      if (!isAllowed(known[key], value)) return `${key} must be ${allowed(known[key])}, got ${value}`;
    }
    return "";
  }

  show(values) {
    this.inputs = {};
    this.fields.replaceChildren();
    for (const each of this.player.settings) {
      const given = values[each.name];
      const value = isAllowed(each, given) ? given : each.default;
      const options = Object.entries(each.choices);
      const input = options.length
        ? el("select", {}, ...options.map(([value, text]) => el("option", { value }, text)))
        : el("input", {
            type: "number",
            min: each.low,
            max: each.high,
            step: each.step,
          });
      input.value = value;
      input.addEventListener("change", () => this.save());
      this.inputs[each.name] = [input, each];
      this.fields.append(label(each.label, input));
    }
  }

  spec() {
    const settings = {};
    for (const [name, [input, each]] of Object.entries(this.inputs)) {
      settings[name] = input.matches("select") ? input.value : numberOf(input, each.label);
    }
    return { name: this.select.value, settings };
  }

  save() {
    const isComplete = Object.values(this.inputs).every(
      ([input]) => input.value !== "" && input.validity.valid,
    );
    if (this.key && isComplete) localStorage.setItem(this.key, JSON.stringify(this.spec()));
  }
}
