// SPDX-License-Identifier: Apache-2.0
// Who may use the node: users with their groups and limits; made and removed by administrators.
import { part } from "../api.js";
import { confirmed } from "../dialog.js";
import { h, setText, table } from "../dom.js";
import { count } from "../format.js";

const LIMITS = [
  ["max_graphs", "Graphs"],
  ["max_cores", "Cores"],
  ["max_memory_mb", "Memory (MB)"],
  ["max_images_mb", "Images (MB)"],
];

export function usersView(page) {
  const limit = ([key, title]) => ({ title, className: "number", text: (user) => (user[key] === null ? "–" : count(user[key])) });
  let known = [];
  const remove = async (user) => {
    if (!(await confirmed(`Remove user ${user.username}?`, "The graphs stay.", "Remove"))) return;
    try {
      await page.api.send("DELETE", `/users/${part(user.username)}`);
      page.say(`${user.username} was removed`);
      await read();
    } catch (error) {
      page.say(error.message, "bad");
    }
  };
  const rows = table(
    [
      { title: "User", className: "main", text: (user) => user.username },
      { title: "Group", text: (user) => user.group },
      ...LIMITS.map(limit),
      { title: "Commands in VNFs", text: (user) => (user.may_exec ? "yes" : "no") },
      { title: "", node: (user) => h("button", { class: "plain", type: "button", "data-remove": user.username, onclick: () => remove(user) }, "Remove") },
    ],
    (user) => user.username,
    "There are no users.",
  );
  const said = h("p", { class: "error", role: "alert" });
  const field = (name, attributes) => h("input", { name, ...attributes });
  const name = field("new-user", { required: true, maxlength: 64, pattern: "[A-Za-z0-9_.\\-]+", autocomplete: "off" });
  const group = field("new-group", { required: true, maxlength: 64, pattern: "[A-Za-z0-9_.\\-]+" });
  const password = field("new-password", { type: "password", required: true, minlength: 8, autocomplete: "new-password" });
  const limits = LIMITS.map(([key]) => field(key, { type: "number", min: 0, placeholder: "no limit" }));
  const mayExec = field("may_exec", { type: "checkbox" });
  const button = h("button", { class: "primary", type: "submit" }, "Add");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    setText(said, "");
    // The original node answers this by 401, which would log this page out.
    if (known.some((user) => user.username === name.value)) {
      setText(said, `There is a user ${name.value} already.`);
      button.disabled = false;
      return;
    }
    const body = { password: password.value, group: group.value, may_exec: mayExec.checked };
    LIMITS.forEach(([key], index) => {
      if (limits[index].value !== "") body[key] = Number(limits[index].value);
    });
    try {
      const { groups } = await page.api.get("/groups");
      if (!groups.some((known) => known.name === group.value)) await page.api.send("PUT", `/groups/${part(group.value)}`);
      await page.api.send("POST", `/users/${part(name.value)}`, body);
      page.say(`${name.value} was added`);
      event.target.reset();
      await read();
    } catch (error) {
      setText(said, error.message);
    } finally {
      button.disabled = false;
    }
  };
  const form = h("form", { class: "card narrow", onsubmit: submit },
    h("h2", {}, "Add a user"),
    h("label", {}, "Name", name),
    h("label", {}, "Group (admin may do everything)", group),
    h("label", {}, "Password", password),
    LIMITS.map(([, title], index) => h("label", {}, title, limits[index])),
    h("label", {}, "May run commands in VNFs of its graphs", mayExec),
    said,
    button,
  );
  const off = h("p", { class: "muted", hidden: true });
  const closed = (why) => {
    form.hidden = true;
    rows.element.hidden = true;
    off.hidden = false;
    setText(off, why);
  };
  const read = async (signal) => {
    if (!page.api.user) return closed("Login is off on this node (rest.login in node.yaml).");
    try {
      known = (await page.api.get("/users", signal)).users;
      rows.update(known);
    } catch (error) {
      if (error.code !== 403) throw error;
      closed(error.message);
    }
  };
  const element = h("div", { class: "view" },
    h("section", { class: "card" }, h("h1", {}, "Users"), off, rows.element),
    form,
  );
  return { element, read };
}
