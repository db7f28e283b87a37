/** Text whose control characters are shown by their pictures, one for one, and do nothing. */

const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const DELETE = 0x7f;
const PICTURES = 0x2400;

/** What runs is read as it runs: no character turns it around, or hides in it. @param {string} text @returns {string} just as long */
export function visible(text) {
  return text.replace(CONTROLS, (character) => {
    const code = character.charCodeAt(0);
    if (code > DELETE) return "\u2426"; // what would turn the direction of writing around
    return code === DELETE ? "\u2421" : String.fromCharCode(PICTURES + code);
  });
}

/** What a terminal obeys: colours, titles, moves of the cursor. */
const SEQUENCES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?)/g;

/** A line that is shown without its colours. @param {string} text */
export const uncoloured = (text) => text.replace(SEQUENCES, "");

/** Output: its line breaks may be a terminal's. @param {string} text @returns {string} just as long */
export const printable = (text) => visible(text.replace(/\r\n/g, " \n"));
