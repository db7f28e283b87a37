// What the console takes from others, as one script: jQuery without Ajax and effects, two plugins of Bootstrap.
import $ from "jquery/slim";
import Dropdown from "bootstrap/js/dist/dropdown";
import Modal from "bootstrap/js/dist/modal";

window.jQuery = $;
window.bootstrap = { Dropdown, Modal };
