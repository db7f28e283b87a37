/** What the bundle of others (static/vendor/vendor.js) has put on the window. */
export const { Modal } = window.bootstrap;
