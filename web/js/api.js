// The REST API and its events. Errors are objects of class ApiError with the server's own words.

export class ApiError extends Error {
  constructor(status, error) {
    super(error?.message ?? `the server answered ${status}`);
    this.status = status;
    this.code = error?.code ?? "";
    this.detail = error?.detail ?? {};
  }

  /** One line for people: message and place. */
  get line() {
    const { layer, op } = this.detail;
    const place = [layer && `layer ${layer}`, op].filter(Boolean).join(", ");
    return place && !this.message.includes(layer ?? op) ? `${this.message} (${place})` : this.message;
  }
}

async function answer(response) {
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(response.status, body.error);
  return body;
}

export async function get(path) {
  return answer(await fetch(`/api/v1/${path}`, { headers: { Accept: "application/json" } }));
}

export async function post(path, body) {
  const options = { method: "POST" };
  if (body !== undefined) {
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  return answer(await fetch(`/api/v1/${path}`, options));
}

/** Uploads a model file; `progress` gets a part of 1. XMLHttpRequest, since fetch tells nothing while it sends. */
export function upload(name, file, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `/api/v1/models/${encodeURIComponent(name)}`);
    request.responseType = "json";
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => event.lengthComputable && progress(event.loaded / event.total));
    request.addEventListener("load", () =>
      request.status < 300 ? resolve(request.response) : reject(new ApiError(request.status, request.response?.error)));
    request.addEventListener("error", () => reject(new ApiError(0, { message: "the server is out of reach" })));
    request.send(file);
  });
}

/** Live events: handlers by name, `reset` when events were missed, `link` with true or false. */
export function listen(handlers) {
  const source = new EventSource("/api/v1/events");
  source.addEventListener("open", () => handlers.link(true));
  source.addEventListener("error", () => handlers.link(false));
  for (const [name, handler] of Object.entries(handlers)) {
    if (name !== "link") source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
  }
}
