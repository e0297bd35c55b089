// SPDX-License-Identifier: Apache-2.0
// Figures with a name, some with a line of their last two minutes.
import { chart } from "./chart.js";
import { h, setText } from "./dom.js";
import { History } from "./readings.js";

/** One figure; `set(text, value)` also adds `value` to its line, if it has one. */
export function tile(title, { unit = "", line = false, className = "" } = {}) {
  const value = h("span", { class: "value" }, "–");
  const note = h("span", { class: "note" }, unit);
  const history = new History();
  const drawn = line ? chart(history, className) : null;
  const element = h("div", { class: `tile ${className}` }, h("h3", {}, title), h("p", {}, value, " ", note), drawn?.element);
  const set = (text, number, said) => {
    setText(value, text);
    if (said !== undefined) setText(note, said);
    if (drawn) {
      history.add(number);
      drawn.update();
    }
  };
  return { element, set };
}

/** Tiles side by side. */
export const tiles = (...parts) => h("div", { class: "tiles" }, parts.map((part) => part.element));
