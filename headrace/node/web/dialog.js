// SPDX-License-Identifier: Apache-2.0
// A question that has to be answered before something is done that can't be undone.
import { h } from "./dom.js";

/** Whether the person says yes; Escape is no. */
export function confirmed(question, detail, yes) {
  return new Promise((resolve) => {
    const done = (answer) => () => {
      dialog.close();
      // At once: its close event comes later, and until then it would be found as an open question.
      dialog.remove();
      resolve(answer);
    };
    const dialog = h("dialog", { class: "card", oncancel: done(false) },
      h("h2", {}, question),
      h("p", {}, detail),
      h("div", { class: "actions" },
        h("button", { type: "button", onclick: done(false) }, "Cancel"),
        h("button", { type: "button", class: "danger", onclick: done(true) }, yes)),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}
