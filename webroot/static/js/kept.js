/**
 * What this browser keeps of the reader's choices. Where it may keep nothing (a setting of the reader's, or no room), they
 * hold for this page: nothing else depends on it.
 */

/** @type {Map<string, string>} what could not be kept */
const here = new Map();

/** What is kept under a name; null: nothing. @param {string} name */
export function kept(name) {
  const own = here.get(name);
  if (own !== undefined) return own;
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** @param {string} name @param {string} value */
export function keep(name, value) {
  try {
    localStorage.setItem(name, value);
    here.delete(name);
  } catch {
    here.set(name, value);
  }
}
