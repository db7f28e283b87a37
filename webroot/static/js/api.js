/** Calls to /api/v1. Every failure is an ApiError; its message is for people. */
import { anotherCame, loggedIn, loginNeeded } from "./leaving.js";
import { encoded } from "./links.js";
import { inWords } from "./said.js";
import { askOtherTabs, otherUser, secret } from "./secret.js";
import { t } from "./text.js";

const BASE = "/api/v1";
/** Longer than a manager takes to begin an answer: then nobody is at the other end, though the connection has not said so. */
const PATIENCE_MS = 60_000;
/** POSTs that change nothing. */
const ASKS = /^\/(login|jobs\/check|schedule\/preview|forecast\/spread|crontab\/preview)$/;
/** What a manager says of a call that may have been carried out, or is going on. */
const IN_DOUBT = ["timeout", "idempotency-in-progress", "internal-error"];

/** For so long after a key or a movement somebody is in front of the page; what it asks by itself afterwards is no use of the session. */
const ATTENDED_MS = 60_000;
let touchedMs = performance.now();
for (const what of ["keydown", "pointerdown", "pointermove", "wheel", "click", "input"]) {
  document.addEventListener(what, (/** @type {any} */ event) => {
    const hasMoved = what !== "pointermove" || event.movementX || event.movementY; // browsers also tell that the page moved beneath
    if (hasMoved) touchedMs = performance.now();
  }, { capture: true, passive: true });
}

/** @typedef {{field: string, message: string, remedy: string}} FieldError */

export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {{status?: number, code?: string, errors?: FieldError[], body?: any, isInDoubt?: boolean}} [details] status 0: nobody answered; `isInDoubt`: it may have been done
   */
  constructor(message, { status = 0, code = "unreachable", errors = [], body = null, isInDoubt = false } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.errors = errors;
    this.body = body;
    this.isInDoubt = isInDoubt;
  }

  /** Whether the same call may have an answer later, without any event that says so: a server was away, or too slow. */
  get mayPass() {
    return this.status === 0 || this.status >= 500;
  }
}

/**
 * @param {string} path below /api/v1
 * @param {{query?: Record<string, string | number | null | undefined | string[]>, headers?: Record<string, string>, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export function get(path, { query = {}, headers = {}, signal } = {}) {
  const wanted = Object.entries(query).flatMap(([name, value]) => [value].flat().map((one) => [name, one])).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(wanted.map(([name, value]) => [name, String(value)]));
  return send("GET", wanted.length ? `${path}?${search}` : path, { headers, signal });
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{body?: unknown, headers?: Record<string, string>, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function send(method, path, options = {}) {
  if (otherUser()) throw refused();
  try {
    return await sendOnce(method, path, options);
  } catch (error) {
    if (error.status !== 401 || error.code !== "login-needed" || path.startsWith("/login")) throw error;
    const isAgain = await askOtherTabs();
    if (otherUser()) throw refused();
    if (isAgain) return sendOnce(method, path, options); // nothing was done
    loginNeeded();
    throw error;
  }
}

/** It would go out as the call of a user whom the page does not show. */
function refused() {
  anotherCame();
  return new ApiError(t("login.another", { name: otherUser() }), { status: 403, code: "other-user" });
}

/** @param {string} method @param {string} path @param {{body?: unknown, headers?: Record<string, string>, signal?: AbortSignal}} options */
async function sendOnce(method, path, { body, headers = {}, signal }) {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const type = body === undefined ? {} : { "Content-Type": "application/json" };
  const mayBeDone = method !== "GET" && !ASKS.test(path);
  const lost = (/** @type {string} */ what) => (mayBeDone ? t("error.doubt", { what }) : what);
  let answer, text;
  try {
    answer = await answered(BASE + path, { method, headers: { ...type, ...ours(method), ...headers }, ...sent }, signal);
    text = await answer.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(lost(t("error.unreachable")), { isInDoubt: mayBeDone });
  }
  const document = await inWords(parsed(text));
  if (answer.status !== 401) loggedIn();
  if (answer.ok && document !== undefined) return document;
  const code = document?.code ?? "no-json";
  const isLost = !document?.detail && !(answer.status >= 400 && answer.status < 500); // a proxy says so, which does not know what was done
  const other = t("error.status", { status: String(answer.status) });
  const detail = document?.detail ?? other;
  throw new ApiError(isLost || code === "internal-error" ? lost(detail) : detail, {
    status: answer.status,
    code,
    errors: document?.errors ?? [],
    body: document ?? null,
    isInDoubt: mayBeDone && (isLost || document?.inDoubt === true || IN_DOUBT.includes(code)),
  });
}

/** What forms and pages of other ports cannot send. @param {string} method @returns {Record<string, string>} */
function ours(method) {
  const second = secret();
  const isAttended = performance.now() < touchedMs + ATTENDED_MS;
  return { ...(method === "GET" ? {} : { "X-Etcron": "1" }), ...(isAttended ? {} : { "X-Etcron-Unattended": "1" }), ...(second ? { "X-Etcron-Session": second } : {}) };
}

/** How long the rest of it takes is the network's affair. @param {string} url @param {RequestInit} request @param {AbortSignal} [signal] */
async function answered(url, request, signal) {
  const patience = new AbortController();
  const timer = window.setTimeout(() => patience.abort(), PATIENCE_MS);
  try {
    return await fetch(url, { ...request, signal: signal ? AbortSignal.any([signal, patience.signal]) : patience.signal });
  } finally {
    window.clearTimeout(timer);
  }
}

/** What comes bit by bit; how long that takes is for who reads it to say. @param {string} path @param {{headers?: Record<string, string>, signal: AbortSignal}} options */
export const streamed = (path, { headers = {}, signal }) => answered(BASE + path, { cache: "no-store", headers: { ...ours("GET"), ...headers } }, signal);

/** What is to be kept as a file. @param {string} path @returns {Promise<Blob>} */
export async function download(path) {
  const answer = await answered(BASE + path, { headers: ours("GET") }).catch(() => null);
  if (answer?.ok) return answer.blob();
  if (answer?.status === 401) loginNeeded();
  throw new ApiError(answer ? t("error.status", { status: String(answer.status) }) : t("error.unreachable"), { status: answer?.status ?? 0 });
}

/** @param {string} name @returns {string} the path of a job in the API */
export const jobPath = (name) => `/jobs/${encoded(name)}`;

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
