// What reads the colours of a terminal, for the page of a run; loaded where something has some.
export { AnsiUp } from "ansi_up";
