// SPDX-License-Identifier: Apache-2.0
// A new graph, or a new version of one: its id and its NF-FG, from an example, a file or by hand.
import { part } from "../api.js";
import { h, setAttribute, setText } from "../dom.js";

const PERIOD_MS = 300;

export function deployView(page, id) {
  const isNew = id === undefined;
  const name = h("input", { name: "id", required: true, maxlength: 64, value: id ?? "", readonly: !isNew, placeholder: "mine", autocomplete: "off" });
  const text = h("textarea", { name: "document", required: true, rows: 20, spellcheck: "false", "aria-label": "NF-FG as JSON" });
  const examples = h("select", { name: "example", "aria-label": "example" }, h("option", { value: "" }, "choose an example …"));
  const file = h("input", { type: "file", accept: ".json,application/json", "aria-label": "file" });
  const said = h("p", { class: "error", role: "alert", hidden: true });
  const bar = h("progress", { max: 100, value: 0, hidden: true });
  const button = h("button", { class: "primary", type: "submit" }, isNew ? "Deploy" : "Update");
  const open = new AbortController();

  const tell = (words) => {
    said.hidden = !words;
    setText(said, words);
  };
  const take = (content, suggested) => {
    text.value = content;
    if (isNew && !name.value) name.value = suggested;
    check();
  };
  /** JSON that is none is said at once, with its place. */
  const check = () => {
    try {
      if (text.value.trim()) JSON.parse(text.value);
      tell("");
      setAttribute(text, "aria-invalid", null);
      return true;
    } catch (error) {
      tell(`This is no JSON: ${error.message}`);
      setAttribute(text, "aria-invalid", "true");
      return false;
    }
  };
  text.addEventListener("input", check);
  examples.addEventListener("change", async () => {
    if (!examples.value) return;
    const found = await page.api.get(`/ui/examples/${examples.value}.json`);
    take(JSON.stringify(found, null, 2), examples.value);
  });
  const takeFile = async (given) => given && take(await given.text(), given.name.replace(/\.json$/, ""));
  file.addEventListener("change", () => takeFile(file.files[0]));
  text.addEventListener("dragover", (event) => event.preventDefault());
  text.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    takeFile(event.dataTransfer.files[0]);
  });

  const follow = async (wanted) => {
    for (;;) {
      const status = await page.api.get(`/NF-FG/status/${part(wanted)}`, open.signal);
      bar.value = status.percentage_completed;
      if (status.status === "complete") return;
      if (status.status === "error") throw new Error(status.message || "it failed; see the node's log");
      await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
    }
  };
  const submit = async (event) => {
    event.preventDefault();
    if (!check()) return;
    const wanted = name.value.trim();
    button.disabled = true;
    bar.hidden = false;
    bar.value = 0;
    try {
      await page.api.send("PUT", `/NF-FG/${part(wanted)}?wait=false`, text.value);
      await follow(wanted);
      page.say(`graph ${wanted} is ${isNew ? "deployed" : "updated"}`);
      page.go(`graphs/${part(wanted)}`);
    } catch (error) {
      if (!open.signal.aborted) tell(error.message);
    } finally {
      button.disabled = false;
      bar.hidden = true;
    }
  };
  const begin = async () => {
    if (!isNew) {
      take(JSON.stringify(await page.api.get(`/NF-FG/${part(id)}`), null, 2), id);
      return;
    }
    for (const example of await page.api.get("/ui/examples")) examples.append(h("option", { value: example }, example));
  };
  begin().catch((error) => tell(error.message));

  const element = h("form", { class: "view card", onsubmit: submit },
    h("h1", {}, isNew ? "Deploy a graph" : `Update graph ${id}`),
    h("p", { class: "muted" }, isNew ? "An NF-FG as JSON: one of the examples, a file (drop it below), or your own." : "What stays the same is not touched; traffic through it goes on."),
    h("div", { class: "fields" },
      h("label", {}, "Id", name),
      isNew && h("label", {}, "Example", examples),
      h("label", {}, "File", file)),
    text,
    said,
    bar,
    h("div", { class: "actions" }, h("a", { class: "button", href: isNew ? "#/" : `#/graphs/${part(id)}` }, "Cancel"), button),
  );
  return { element, close: () => open.abort() };
}
