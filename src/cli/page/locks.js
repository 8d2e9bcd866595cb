// The locks, live.

const PAGE = 100; // rows of locks, at most: the monitor cuts a page of long ones

const LOCK_HEADS = [["Key", "", "key"], ["Kind", "", "kind"], ["State", "", "state"],
                    ["Holder", "", "holder"], ["Since", "", "since"],
                    ["Remaining", "number", "remaining"], ["Fence", "number", "fence"],
                    ["Waiting", "number", "waiting"]];

const kindOf = ({kind, slot, readers, fenced}) => (kind ?? "") + (slot ? ` ${slot}` : "") +
  (readers > 1 ? ` × ${readers}` : "") + (fenced ? ", fenced" : "");

// `now`: of the monitor, which saw the lock some time ago.
function lockCells(lock, now) {
  const remaining = lock.remaining_ms === null ? null : lock.remaining_ms + lock.seen_ms - now;
  return [visible(lock.keys?.join(" and ") ?? lock.key), kindOf(lock),
          [["held", "free"].includes(lock.state) ? "" : "warn", lock.state],
          visible(lock.holder ?? "–"), ["", clock(lock.since_ms), "", iso(lock.since_ms)], lasting(remaining),
          lock.fence === null ? "" : String(lock.fence), lock.waiting ? `${number(lock.waiting)}, ${lasting(lock.waited_ms)}` : ""];
}

function countText({total, matched, offset, locks, scanned_ago_ms: ago, took_ms: took, truncated,
                    error}) {
  const from = number(offset + 1), until = number(offset + locks.length);
  const shown = locks.length ? `${from}–${until} of ${plural(matched, "lock")}` : "No lock";
  return [shown + (matched < total ? ` (${number(total)} in all)` : ""), error,
          truncated ? "more than the monitor reads" : null,
          ago === null ? "the first scan runs" : `read ${lasting(ago)} ago in ${lasting(took)}`]
    .filter(Boolean).join(" · ");
}

function showPrefixes(prefixes) {
  const select = byId("prefix"), chosen = select.value;
  const shown = [["", "all"], ...prefixes.filter(({prefix}) => prefix && prefix !== "other")
    .map(({prefix, locks}) => [prefix, `${visible(prefix)} (${number(locks)})`])];
  const texts = JSON.stringify(shown);
  if (select.dataset.texts === texts || document.activeElement === select)
    return;
  select.dataset.texts = texts;
  select.replaceChildren(...shown.map(([value, text]) =>
    h("option", {value, selected: value === chosen}, text)));
}

async function takeLocks() {
  const {sort, offset} = live;
  const data = await askLast("locks", {sort: sort.key, desc: sort.desc ? 1 : 0,
    filter: byId("filter").value, prefix: byId("prefix").value, offset, limit: PAGE});
  if (!data)
    return;
  if (data.failed)
    return setText(byId("locks-count"), `The locks cannot be read: ${data.failed.message}`);
  live.awaitsLocks = data.scanning && data.total === 0 ||
    data.locks.some(({seen_ms: seen}) => data.at_ms - seen > OLD_LOCKS_MS);
  const cells = data.locks.map((lock) => ({cells: lockCells(lock, data.at_ms)}));
  fill(byId("locks-table"), LOCK_HEADS, cells, sort);
  setText(byId("locks-count"), countText(data));
  showPrefixes(data.prefixes);
  live.next = offset + data.locks.length;
  byId("before").disabled = offset === 0;
  byId("after").disabled = live.next >= data.matched;
  byId("before").parentElement.hidden = byId("before").disabled && byId("after").disabled;
}

function beginLocks() {
  const run = repeat(takeLocks, () => live.awaitsLocks ? FIRST_LOCKS_MS : LOCKS_MS,
                     onScreen("locks", () => run()));
  const show = (offset, earlier) => {
    Object.assign(live, {offset, earlier, next: offset}); // until the answer says where it ends
    takeLocks();
  };
  const again = () => show(0, []);
  fill(byId("locks-table"), LOCK_HEADS, [], live.sort);
  byId("locks-table").tHead.addEventListener("click", (event) => {
    const key = event.target.closest("th")?.dataset.key;
    if (event.target.tagName !== "BUTTON")
      return;
    live.sort = {key, desc: live.sort.key === key && !live.sort.desc};
    again();
  });
  byId("locks-form").addEventListener("submit", (event) => event.preventDefault());
  byId("filter").addEventListener("input", again);
  byId("prefix").addEventListener("change", again);
  byId("before").addEventListener("click", () =>
    show(live.earlier.at(-1) ?? 0, live.earlier.slice(0, -1)));
  byId("after").addEventListener("click", () =>
    live.next > live.offset && show(live.next, [...live.earlier, live.offset]));
}
