/**
 * Drawing again what is on the page: what has not changed stays the same elements, so that whoever has the focus there,
 * has selected some text, has moved a table aside or is in the middle of a click loses nothing.
 */
import { nodes } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * Makes what is inside like these children. Elements are the same by their `data-key` or id, links by where they lead (none
 * becomes another one under the pointer), all others by their place. Listeners of the new ones are not taken over: they
 * belong to the element itself, or depend on nothing that was drawn.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function redraw(element, ...children) {
  const controls = () => /** @type {HTMLElement[]} */ ([...element.querySelectorAll("a[href], button")]);
  const at = controls().indexOf(/** @type {any} */ (document.activeElement));
  become(element, nodes(children).map((one) => (one instanceof Node ? one : document.createTextNode(one))));
  // What had the focus is gone: what has its place now has it.
  if (at >= 0 && !element.contains(document.activeElement)) controls()[Math.min(at, controls().length - 1)]?.focus({ preventScroll: true });
}

/** @param {Node} parent @param {Node[]} wanted */
function become(parent, wanted) {
  const keys = new Set(wanted.map(keyOf));
  /** @type {Map<string | null, Node>} */
  const known = new Map();
  for (const one of [...parent.childNodes]) {
    const key = keyOf(one);
    if (key && keys.has(key)) known.set(key, one);
    else if (key) /** @type {ChildNode} */ (one).remove(); // first, so that those that stay need not be moved
  }
  let at = parent.firstChild;
  for (const one of wanted) {
    const key = keyOf(one);
    const same = key ? known.get(key) : at && !keyOf(at) ? at : null;
    known.delete(key);
    if (same?.nodeName !== one.nodeName) {
      parent.insertBefore(one, at);
      continue;
    }
    if (same === at) at = at.nextSibling;
    else parent.insertBefore(same, at);
    update(same, one);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** @param {Node} one @param {Node} wanted of the same name */
function update(one, wanted) {
  if (one.isEqualNode(wanted)) return;
  if (!(one instanceof Element)) {
    one.nodeValue = wanted.nodeValue;
    return;
  }
  const { attributes } = /** @type {Element} */ (wanted);
  for (const { name } of [...one.attributes]) if (!attributes.getNamedItem(name)) one.removeAttribute(name);
  for (const { name, value } of attributes) {
    if (one.getAttribute(name) === value) continue;
    // As an attribute a style is what the page's policy forbids; the same by its properties is not.
    if (name === "style" && one instanceof HTMLElement) one.style.cssText = value;
    else one.setAttribute(name, value);
  }
  become(one, [...wanted.childNodes]);
}

/** What an element is known by, also in another place; null: by its place. @param {Node} node */
function keyOf(node) {
  if (!(node instanceof HTMLElement)) return null;
  const key = node.dataset.key ?? node.id;
  return key || (node.nodeName === "A" ? node.getAttribute("href") : null);
}
