// SPDX-License-Identifier: Apache-2.0
// A line of the last two minutes, as large as its frame.
import { s, setAttribute } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 48;

/** A chart of a history; `update` draws it again. */
export function chart(history, className) {
  const area = s("path", { class: "area" });
  const line = s("path", { class: "line" });
  const element = s(
    "svg",
    { class: `chart ${className ?? ""}`, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    area,
    line,
  );
  const update = () => {
    const values = history.values;
    const top = Math.max(...values.map((value) => value ?? 0), 1e-9);
    const step = WIDTH / Math.max(values.length - 1, 30);
    const begin = WIDTH - step * (values.length - 1);
    const points = values.map((value, index) => [begin + index * step, HEIGHT - 2 - ((value ?? 0) / top) * (HEIGHT - 6)]);
    if (!points.length) return;
    const path = points.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
    setAttribute(line, "d", path);
    setAttribute(area, "d", `${path}L${WIDTH} ${HEIGHT}L${points[0][0].toFixed(1)} ${HEIGHT}Z`);
  };
  update();
  return { element, update };
}
