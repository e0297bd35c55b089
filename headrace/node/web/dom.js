// SPDX-License-Identifier: Apache-2.0
// Elements. Text always goes in as text, never as HTML, whatever a graph is called.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** An HTML element; attributes that begin with `on` are listeners. */
export const h = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);

/** An SVG element. */
export const s = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** Sets the text of an element if it is another, so that a selection in it stays. */
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** Sets an attribute if it is another; null removes it. */
export function setAttribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Replaces what is in an element. */
export const show = (element, ...children) =>
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));

/**
 * A table that is updated in place, row by row: what is under the pointer or has the focus stays.
 * Each column is {title, text(row), className, node(row)}; `node` makes a cell once for each row.
 */
export function table(columns, keyOf, empty) {
  const body = h("tbody");
  const none = h("p", { class: "empty" }, empty);
  const head = h("tr", {}, columns.map((column) => h("th", { class: column.className, scope: "col" }, column.title)));
  const element = h("div", { class: "table" }, h("table", {}, h("thead", {}, head), body), none);
  const rows = new Map();
  const update = (list) => {
    const keys = new Set(list.map(keyOf));
    for (const [key, row] of rows) {
      if (!keys.has(key)) {
        row.element.remove();
        rows.delete(key);
      }
    }
    list.forEach((item, index) => {
      const key = keyOf(item);
      let row = rows.get(key);
      if (!row) {
        const cells = columns.map((column) => h("td", { class: column.className, "data-title": column.title }));
        row = { element: h("tr", {}, cells), cells };
        columns.forEach((column, at) => column.node && cells[at].append(...[column.node(item)].flat()));
        rows.set(key, row);
      }
      columns.forEach((column, at) => {
        if (column.text) setText(row.cells[at], column.text(item));
        if (column.state) setAttribute(row.cells[at], "data-state", column.state(item));
      });
      if (body.children[index] !== row.element) body.insertBefore(row.element, body.children[index] || null);
    });
    none.hidden = list.length > 0;
    element.firstChild.hidden = list.length === 0;
  };
  update([]);
  return { element, update };
}
