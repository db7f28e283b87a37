// Read by Playwright's driver before all else (NODE_OPTIONS): what it puts into each document has no number of its own,
// so that Chromium compiles it once, and not for each document. The number names elements in snapshots for machines,
// which no test takes.
"use strict";
const { Module } = require("node:module");

const compile = Module.prototype._compile;
Module.prototype._compile = function (source, ...more) {
  return compile.call(this, source.replace("frameSeq: this.frame.seq,", "frameSeq: 0,"), ...more);
};
