/** Output as text: control characters are shown by their pictures, one for one, and do nothing. */

const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const DELETE = 0x7f;
const PICTURES = 0x2400;

/** @param {string} text @returns {string} just as long */
export function printable(text) {
  return text.replace(/\r\n/g, " \n").replace(CONTROLS, (character) => {
    const code = character.charCodeAt(0);
    if (code > DELETE) return "\u2426"; // what would turn the direction of writing around
    return code === DELETE ? "\u2421" : String.fromCharCode(PICTURES + code);
  });
}
