/** Elements. Data gets into the page through here, as text nodes and attributes; never as markup. */

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 */

/**
 * An element with attributes and children. `class` and `data-...` are attributes like any other; `true` gives an empty
 * one, `false`, `null` and `undefined` none; functions become listeners (`onclick`).
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...nodes(children));
  return element;
}

/**
 * An icon of the sprite; decorative, so a word has to stand beside it or label it.
 * @param {string} name
 * @returns {SVGElement}
 */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `${document.body.dataset.icons}#${name}`);
  svg.append(use);
  return svg;
}

/**
 * Listens at what stays, for what is drawn in it again and again.
 * @param {EventTarget} root
 * @param {string} type of the event
 * @param {string} selector of the elements that are meant; none of them is inside another
 * @param {(element: any) => void} handle
 */
export function delegate(root, type, selector, handle) {
  root.addEventListener(type, ({ target }) => {
    const element = /** @type {Element} */ (target).closest(selector);
    if (element && !element.matches(":disabled")) handle(element);
  });
}

/** A button that waits for an answer. It keeps the focus, which a disabled one loses. @param {Element} button @param {boolean} on */
export function hold(button, on) {
  button.classList.toggle("disabled", on);
  button.setAttribute("aria-disabled", String(on));
}

/** @param {Element} button */
export const isHeld = (button) => button.classList.contains("disabled");

/**
 * Replaces what is inside.
 * @param {Element | null} element
 * @param {...(Child | Child[])} children
 */
export function fill(element, ...children) {
  element?.replaceChildren(...nodes(children));
}

/**
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element #${id}`);
  return found;
}

/** Those that are there, however deep their lists lie in one another. @param {(Child | Child[])[]} children @returns {(Node | string)[]} */
export function nodes(children) {
  return /** @type {Child[]} */ (children.flat(Infinity)).filter((one) => one !== null && one !== undefined && one !== false)
    .map((one) => (one instanceof Node ? one : String(one)));
}
