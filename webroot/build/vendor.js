// What the console takes from others, as one script: two plugins of Bootstrap. The dropdown works by its marks in the page.
import "bootstrap/js/dist/dropdown";
import Modal from "bootstrap/js/dist/modal";

window.bootstrap = { Modal };
