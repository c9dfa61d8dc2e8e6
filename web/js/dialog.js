// A question in a dialog: what is about to happen, fields if any, and a button that names the act.
import { el } from "./dom.js";

/**
 * Shows a dialog. `text`: a paragraph, or a list of paragraphs, each a text or a list of texts and elements. `fields`:
 * [{name, label, value, pattern, title, required}], or with `options` [{value, text}] to choose from. `call(values)` does
 * the act; its refusal is shown in the dialog, which stays open. Resolves to true when it was done, false when it was left.
 */
export function ask({ title, text, fields = [], confirm, danger = false, call }) {
  return new Promise((resolve) => {
    const inputs = fields.map((field) => (field.options ? el("select", { name: field.name },
      field.options.map((option) => el("option", { value: option.value }, option.text))) : el("input", {
      name: field.name, value: field.value ?? "", pattern: field.pattern, title: field.title, required: field.required,
      autocomplete: "off", maxlength: field.maxlength,
    })));
    const message = el("p", { class: "bad", role: "alert" });
    const go = el("button", { type: "submit", class: danger ? "danger" : "solid", hidden: !confirm }, confirm);
    const heading = el("h2", { id: "dialog-title" }, title);
    let done = false;
    const dialog = el("dialog", { "aria-labelledby": "dialog-title" },
      el("form", {
        onsubmit: async (event) => {
          event.preventDefault();
          go.disabled = true;
          message.textContent = "";
          try {
            await call(Object.fromEntries(inputs.map((input) => [input.name, input.value])));
            done = true;
            dialog.close();
          } catch (error) {
            message.textContent = error.line ?? error.message;
          }
          go.disabled = false;
        },
      }, heading, [].concat(text ?? []).map((one) => el("p", {}, one)),
      fields.map((field, i) => el("label", {}, field.label, " ", inputs[i])), message,
      el("div", { class: "actions" }, go, el("button", { type: "button", autofocus: danger, onclick: () => dialog.close() }, "Leave it"))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(done);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
