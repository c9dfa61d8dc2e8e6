// How busy the server is: GET /load, asked again after each inference (at most every 3 s) and every 10 s.
import { get } from "./api.js";
import { subscribe } from "./live.js";

const MOST_OFTEN_MS = 3000;
const AT_LEAST_MS = 10000;

/** Calls `call(load)` with each answer; returns what ends it. A hidden tab asks for nothing. */
export function watchLoad(minutes, points, call) {
  let asked = 0;
  let timer = 0;
  let ended = false;
  async function ask() {
    clearTimeout(timer);
    asked = Date.now();
    const load = document.hidden ? null : await get(`load?minutes=${minutes}&points=${points}`).catch(() => null);
    if (ended) return;
    if (load) call(load);
    clearTimeout(timer);
    timer = setTimeout(ask, AT_LEAST_MS);
  }
  function soon() {
    clearTimeout(timer);
    timer = setTimeout(ask, Math.max(0, asked + MOST_OFTEN_MS - Date.now()));
  }
  const unsubscribe = subscribe(["inferences", "link"], soon);
  return () => {
    ended = true;
    clearTimeout(timer);
    unsubscribe();
  };
}
