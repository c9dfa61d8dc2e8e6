// A square to draw a digit on: white strokes on black, by mouse, touch or pen. What is sent is the drawing fitted into the
// middle, as the hand-written digits are that such models learnt from.
import { el } from "./dom.js";

const SIDE = 280;
const INNER = 200; // the drawing's longer side, of SIDE
const PEN = 22;

/** The box around what is not black, and the centre of its mass; null: all black. */
export function inkOf(pixels, width, height) {
  let [left, top, right, bottom] = [width, height, -1, -1];
  let [mass, sumX, sumY] = [0, 0, 0];
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const value = pixels[(y * width + x) * 4];
      if (value < 32) continue;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
      mass += value;
      sumX += value * (x + 0.5);
      sumY += value * (y + 0.5);
    }
  return mass ? { left, top, width: right - left + 1, height: bottom - top + 1, x: sumX / mass, y: sumY / mass } : null;
}

/** `done(blob)` is called with a PNG a moment after each stroke. */
export function drawing(done) {
  const canvas = el("canvas", { class: "drawing", width: SIDE, height: SIDE, role: "img", "aria-label": "a square to draw a digit on with mouse, finger or pen; by keyboard use the sample digits" });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  let last = null;
  let timer = 0;
  function clear() {
    pen.fillStyle = "#000";
    pen.fillRect(0, 0, SIDE, SIDE);
    clearTimeout(timer);
  }
  const at = (event) => {
    const frame = canvas.getBoundingClientRect();
    return [((event.clientX - frame.left) / frame.width) * SIDE, ((event.clientY - frame.top) / frame.height) * SIDE];
  };
  function line(to) {
    pen.strokeStyle = "#fff";
    pen.lineWidth = PEN;
    pen.lineCap = pen.lineJoin = "round";
    pen.beginPath();
    pen.moveTo(...last);
    pen.lineTo(...to);
    pen.stroke();
    last = to;
  }
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    canvas.setPointerCapture(event.pointerId);
    clearTimeout(timer);
    last = at(event);
    line([last[0] + 0.1, last[1]]);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    for (const one of event.getCoalescedEvents?.() ?? [event]) line(at(one));
  });
  const up = () => {
    if (!last) return;
    last = null;
    timer = setTimeout(send, 450);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);

  function send() {
    const ink = inkOf(pen.getImageData(0, 0, SIDE, SIDE).data, SIDE, SIDE);
    if (!ink) return;
    const fitted = el("canvas", { width: SIDE, height: SIDE });
    const out = fitted.getContext("2d");
    const scale = INNER / Math.max(ink.width, ink.height);
    out.fillStyle = "#000";
    out.fillRect(0, 0, SIDE, SIDE);
    out.imageSmoothingQuality = "high";
    // The centre of mass goes to the middle.
    out.drawImage(canvas, ink.left, ink.top, ink.width, ink.height,
      SIDE / 2 - (ink.x - ink.left) * scale, SIDE / 2 - (ink.y - ink.top) * scale, ink.width * scale, ink.height * scale);
    fitted.toBlob(done, "image/png");
  }
  clear();
  return {
    element: canvas,
    clear,
    /** Shows a picture instead of a drawing. */
    show(image) {
      clear();
      pen.imageSmoothingEnabled = false;
      pen.drawImage(image, 0, 0, SIDE, SIDE);
    },
  };
}
