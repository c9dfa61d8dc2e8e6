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

async function send(method, path, body) {
  const options = { method };
  if (body !== undefined) {
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  return answer(await fetch(`/api/v1/${path}`, options));
}

export const post = (path, body) => send("POST", path, body);
export const put = (path, body) => send("PUT", path, body);
export const patch = (path, body) => send("PATCH", path, body);
export const del = (path) => send("DELETE", path);

/** Sends raw bytes or text (a labels file, an image); the answer is JSON. */
export async function sendBytes(method, url, body, type = "application/octet-stream") {
  return answer(await fetch(url, { method, body, headers: { "Content-Type": type } }));
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
