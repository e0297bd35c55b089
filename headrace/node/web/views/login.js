// SPDX-License-Identifier: Apache-2.0
// Logging in, where the node demands it.
import { h, setText } from "../dom.js";

export function loginView(page) {
  const name = h("input", { name: "username", autocomplete: "username", required: true, maxlength: 64 });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const said = h("p", { class: "error", role: "alert" });
  const button = h("button", { class: "primary", type: "submit" }, "Log in");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    setText(said, "");
    try {
      await page.api.login(name.value, password.value);
      await page.enter();
      page.route();
    } catch (error) {
      setText(said, error.message);
      password.value = "";
      password.focus();
    } finally {
      button.disabled = false;
    }
  };
  const element = h("form", { class: "card narrow", onsubmit: submit },
    h("h1", {}, "Log in"),
    h("p", { class: "muted" }, "This node demands a user and a password."),
    h("label", {}, "User", name),
    h("label", {}, "Password", password),
    said,
    button,
  );
  queueMicrotask(() => name.focus());
  return { element };
}
