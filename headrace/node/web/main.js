// SPDX-License-Identifier: Apache-2.0
// The page: one view at a time, chosen by what stands behind # in its address, and read every second
// while the page can be seen.
import { Api } from "./api.js";
import { h, setAttribute, setText, show } from "./dom.js";
import { clock } from "./format.js";
import { deployView } from "./views/deploy.js";
import { eventsView } from "./views/events.js";
import { graphView } from "./views/graph.js";
import { loginView } from "./views/login.js";
import { nodeView } from "./views/node.js";
import { overview } from "./views/overview.js";
import { usersView } from "./views/users.js";
import { vnfView } from "./views/vnf.js";

const PERIOD_MS = 1000;
const EVENTS_KEPT = 500;

const ROUTES = [
  [/^$/, overview],
  [/^deploy$/, deployView],
  [/^node$/, nodeView],
  [/^events$/, eventsView],
  [/^users$/, usersView],
  [/^graphs\/([^/]+)$/, graphView],
  [/^graphs\/([^/]+)\/edit$/, deployView],
  [/^graphs\/([^/]+)\/vnfs\/([^/]+)$/, vnfView],
];

class Page {
  constructor() {
    this.api = new Api();
    this.mayEnter = true;
    this.api.onLogin = () => {
      this.mayEnter = false;
      this.#open(loginView, []);
    };
    this.events = [];
    this.listeners = new Set();
    this.#frame();
    window.addEventListener("hashchange", () => this.route());
    document.addEventListener("visibilitychange", () => this.#read());
    setInterval(() => this.#read(), PERIOD_MS);
  }

  #frame() {
    const link = (path, text) => h("a", { href: `#/${path}`, "data-path": path }, text);
    this.links = [link("", "Graphs"), link("node", "Node"), link("events", "Events"), link("users", "Users"), link("deploy", "Deploy")];
    this.name = h("span", { class: "node-name" });
    this.user = h("span", { class: "user" });
    this.out = h("button", { class: "plain", type: "button", onclick: () => this.leave() }, "Log out");
    this.pulse = h("span", { class: "pulse", title: "whether the node answers" });
    this.banner = h("p", { class: "banner", role: "alert", hidden: true });
    this.toasts = h("div", { class: "toasts", role: "status" });
    this.main = h("main", { id: "main", tabindex: "-1" });
    document.body.append(
      h("header", {},
        h("a", { class: "brand", href: "#/" }, h("img", { src: "/ui/icon.svg", alt: "", width: 26, height: 26 }), "Headrace"),
        this.name,
        h("nav", { "aria-label": "views" }, this.links),
        h("span", { class: "session" }, this.pulse, this.user, this.out),
      ),
      this.banner,
      this.main,
      this.toasts,
    );
  }

  async start() {
    await this.enter();
    this.route();
  }

  /** Begins to work as whoever is logged in; without login that is anybody. */
  async enter() {
    this.mayEnter = true;
    try {
      const node = await this.api.get("/node");
      setText(this.name, `${node.name} · ${node.switch.version}`);
      document.title = `${node.name} · Headrace`;
      this.#told(null);
    } catch (error) {
      if (error.code === 401) return;
      this.#told(error);
    }
    setText(this.user, this.api.user ?? "");
    this.out.hidden = !this.api.user;
    this.listening?.abort();
    this.listening = new AbortController();
    this.api.events((event) => this.#happened(event), this.listening.signal);
  }

  leave() {
    this.api.logout();
    this.listening?.abort();
    this.events.length = 0;
    setText(this.user, "");
    this.out.hidden = true;
    this.api.onLogin();
  }

  /** Shows the view that the address names. */
  route() {
    if (!this.mayEnter) return; // the address is that of after the login
    const path = location.hash.replace(/^#\/?/, "");
    const [pattern, make] = ROUTES.find(([candidate]) => candidate.test(path)) ?? [/^$/, overview];
    const words = (path.match(pattern) ?? []).slice(1).map(decodeURIComponent);
    for (const link of this.links) {
      const here = link.dataset.path;
      const isHere = here === path || (here === "" && path.startsWith("graphs/"));
      setAttribute(link, "aria-current", isHere ? "page" : null);
    }
    this.#open(make, words);
  }

  go(path) {
    if (location.hash === `#/${path}`) this.route();
    else location.hash = `#/${path}`;
  }

  /** Calls `tell` at each event while the present view stands. */
  listen(tell) {
    this.listeners.add(tell);
  }

  /** Says in a corner that something has been done, or not. */
  say(text, kind = "good") {
    const toast = h("p", { class: kind }, text);
    this.toasts.append(toast);
    setTimeout(() => toast.remove(), kind === "good" ? 4000 : 9000);
  }

  /** Reads the present view no more, not even to the end of a reading under way, until resumeReading() or the next view. */
  stopReading() {
    this.#stop();
    this.unread = this.view;
  }

  resumeReading() {
    this.unread = null;
  }

  #stop() {
    this.reading?.abort();
    this.reading = null;
  }

  #open(make, words) {
    this.#stop();
    this.view?.close?.();
    this.listeners.clear();
    this.view = make(this, ...words);
    show(this.main, this.view.element);
    window.scrollTo(0, 0);
    this.#read();
  }

  /** One reading of the view; never two at a time. */
  async #read() {
    if (document.hidden || this.reading || !this.view?.read || this.view === this.unread) return;
    const reading = new AbortController();
    this.reading = reading;
    try {
      await this.view.read(reading.signal);
      if (!reading.signal.aborted) this.#told(null);
    } catch (error) {
      if (!reading.signal.aborted) this.#told(error);
    } finally {
      if (this.reading === reading) this.reading = null;
    }
  }

  #told(error) {
    this.banner.hidden = !error || error.code === 401;
    setText(this.banner, error?.message ?? "");
    setAttribute(this.pulse, "data-state", error ? "bad" : "good");
  }

  #happened(event) {
    this.events.unshift(event);
    this.events.length = Math.min(this.events.length, EVENTS_KEPT);
    const about = [event.graph, event.vnf ?? event.port ?? event.rule].filter(Boolean).join(", ");
    if (event.event === "graph-failed" || event.event === "switch-restarted") {
      this.say(`${clock(event.time)} ${event.event} ${about} ${event.message ?? ""}`, "bad");
    }
    for (const tell of this.listeners) tell(event);
  }
}

new Page().start();
