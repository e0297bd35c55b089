// SPDX-License-Identifier: Apache-2.0
// Requests to the node. The token stays in this tab (sessionStorage) and goes out as X-Auth-Token.

const TOKEN = "headrace.token";
const USER = "headrace.user";

/** What the node has refused, with its code and its own words. */
export class ApiError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** One part of a path. */
export const part = (text) => encodeURIComponent(text);

export class Api {
  constructor() {
    this.onLogin = () => {};
  }

  get user() {
    return sessionStorage.getItem(USER);
  }

  async login(username, password) {
    const answer = await this.#send("POST", "/login", { username, password });
    sessionStorage.setItem(TOKEN, await answer.text());
    sessionStorage.setItem(USER, username);
  }

  logout() {
    sessionStorage.removeItem(TOKEN);
    sessionStorage.removeItem(USER);
  }

  async get(path, signal) {
    return (await this.#send("GET", path, undefined, signal)).json();
  }

  /** Text of a log, from `offset` on (null: its last lines), and where it ends. */
  async text(path, offset, signal) {
    const query = offset === null ? "?lines=500" : `?offset=${offset}`;
    const answer = await this.#send("GET", path + query, undefined, signal);
    return { text: await answer.text(), end: Number(answer.headers.get("X-Log-Offset")) };
  }

  /** Any request; `body` is an object, or text that is JSON already. */
  async send(method, path, body) {
    const answer = await this.#send(method, path, body);
    const text = await answer.text();
    return text && answer.headers.get("Content-Type")?.includes("json") ? JSON.parse(text) : text;
  }

  async #send(method, path, body, signal) {
    const headers = this.#headers();
    const init = { method, headers, signal, cache: "no-store" };
    if (body !== undefined) {
      headers["Content-Type"] = "application/json";
      init.body = typeof body === "string" ? body : JSON.stringify(body);
    }
    let answer;
    try {
      answer = await fetch(path, init);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, "the node does not answer");
    }
    if (answer.ok) return answer;
    let message = answer.statusText;
    try {
      message = (await answer.json()).message ?? message;
    } catch {
      // No JSON: the code's own words have to do.
    }
    if (answer.status === 401 && path !== "/login") {
      this.logout();
      this.onLogin();
    }
    throw new ApiError(answer.status, message);
  }

  #headers() {
    const token = sessionStorage.getItem(TOKEN);
    return token ? { "X-Auth-Token": token } : {};
  }

  /**
   * Calls `tell` with each event of the node until `signal`; comes back after an interruption with
   * the number of the last one. A browser sends no headers with a WebSocket, so the token goes as a
   * subprotocol.
   */
  async events(tell, signal) {
    let last = null;
    while (!signal.aborted) {
      const token = sessionStorage.getItem(TOKEN);
      const protocols = ["headrace.events", ...(token ? [`headrace.token.${token}`] : [])];
      const address = new URL(last === null ? "/events" : `/events?after=${last}`, location.href);
      address.protocol = address.protocol.replace("http", "ws");
      const socket = new WebSocket(address, protocols);
      const end = () => socket.close();
      signal.addEventListener("abort", end);
      socket.addEventListener("message", (message) => {
        const { id, ...event } = JSON.parse(message.data);
        last = id;
        tell(event);
      });
      await new Promise((resolve) => socket.addEventListener("close", resolve));
      signal.removeEventListener("abort", end);
      if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }
}
