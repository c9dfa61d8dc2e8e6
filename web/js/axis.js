// What hand-made pictures share: round numbers for an axis, and drawing anew when the width changes.

/** A number of the form 1, 2 or 5 times a power of ten, at least `most / steps`. */
function stepFor(most, steps) {
  const rough = most / steps;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= rough);
}

/** The values of an axis from 0 that reach `most`. */
export function ticks(most, steps = 4) {
  const step = stepFor(most || 1, steps);
  return Array.from({ length: Math.ceil((most || 1) / step) + 1 }, (_, i) => i * step);
}

/** Calls `draw(width)` now and whenever the element's width changes; returns what ends it. */
export function whenSized(element, draw) {
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now && now !== width) draw((width = now));
  });
  observer.observe(element);
  return () => observer.disconnect();
}
