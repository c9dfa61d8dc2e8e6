// Where the boxes and arrows of a network go: ranks by longest path, order within a rank by the mean of the neighbours,
// places by least squares that keep the order. Long arrows get a bend in every rank they pass, so that they run beside
// the boxes and never behind them. Pure: no page, no text.

const GAP = 26; // between neighbours of a rank
const BEND = 10; // width that a passing arrow takes
const STEP = 34; // between ranks
const PORT = 16; // between arrows that enter one box

function neighbours(count, edges) {
  const up = Array.from({ length: count }, () => []);
  const down = Array.from({ length: count }, () => []);
  for (const { from, to } of edges) {
    down[from].push(to);
    up[to].push(from);
  }
  return { up, down };
}

/** Longest path from the sources; nodes come in topological order. Sources stand right above their first reader. */
function rankAll(nodes, { up, down }) {
  const rank = new Array(nodes.length).fill(0);
  for (let i = 0; i < nodes.length; i++) for (const from of up[i]) rank[i] = Math.max(rank[i], rank[from] + 1);
  for (let i = nodes.length - 1; i >= 0; i--)
    if (!up[i].length && down[i].length) rank[i] = Math.min(...down[i].map((to) => rank[to])) - 1;
  return rank;
}

/** Splits long edges: cells are boxes and bends; a chain is the cells that one edge passes. */
function makeCells(nodes, edges, rank) {
  const cells = nodes.map((node, i) => ({ width: node.width, rank: rank[i], box: true, up: [], down: [] }));
  const chains = edges.map(({ from, to }) => {
    const chain = [from];
    for (let r = rank[from] + 1; r < rank[to]; r++) {
      chain.push(cells.length);
      cells.push({ width: BEND, rank: r, box: false, up: [], down: [] });
    }
    chain.push(to);
    for (let i = 1; i < chain.length; i++) {
      cells[chain[i - 1]].down.push(chain[i]);
      cells[chain[i]].up.push(chain[i - 1]);
    }
    return chain;
  });
  return { cells, chains };
}

function countCrossings(rows, cells, place) {
  let sum = 0;
  for (const row of rows) {
    const ends = row.flatMap((c) => cells[c].down.map((to) => [place[c], place[to]])).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    for (let i = 0; i < ends.length; i++)
      for (let j = 0; j < i; j++) if (ends[j][0] < ends[i][0] && ends[j][1] > ends[i][1]) sum++;
  }
  return sum;
}

function number(rows, place) {
  for (const row of rows) row.forEach((c, i) => { place[c] = i; });
}

function orderRows(cells) {
  const rows = [];
  cells.forEach((cell, c) => (rows[cell.rank] ??= []).push(c));
  const place = new Array(cells.length).fill(0);
  number(rows, place);
  let best = rows.map((row) => [...row]);
  let fewest = countCrossings(rows, cells, place);
  for (let sweep = 0; sweep < 10 && fewest > 0; sweep++) {
    const side = sweep % 2 ? "down" : "up";
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const key = new Map(row.map((c) => {
        const near = cells[c][side];
        return [c, near.length ? near.reduce((sum, n) => sum + place[n], 0) / near.length : place[c]];
      }));
      row.sort((a, b) => key.get(a) - key.get(b));
      row.forEach((c, i) => { place[c] = i; });
    }
    const crossings = countCrossings(rows, cells, place);
    if (crossings < fewest) {
      fewest = crossings;
      best = rows.map((row) => [...row]);
    }
  }
  return best;
}

/** Places nearest to the wished ones (weighted least squares) in this order with these distances: pools violators. */
function settle(wish, weight, distance) {
  let at = 0;
  const pools = [];
  wish.forEach((want, i) => {
    at += i ? distance[i - 1] : 0;
    let pool = { sum: (want - at) * weight[i], weight: weight[i], count: 1 };
    while (pools.length && pools.at(-1).sum / pools.at(-1).weight > pool.sum / pool.weight) {
      const last = pools.pop();
      pool = { sum: pool.sum + last.sum, weight: pool.weight + last.weight, count: pool.count + last.count };
    }
    pools.push(pool);
  });
  const out = [];
  at = 0;
  for (const pool of pools)
    for (let k = 0; k < pool.count; k++) {
      at += out.length ? distance[out.length - 1] : 0;
      out.push(pool.sum / pool.weight + at);
    }
  return out;
}

// Bends of one arrow want to stand above one another, boxes of a chain too; an arrow pulls a box only a little.
const pull = (a, b) => (a.box === b.box ? 8 : 1);

/** What should stand in one line: the bends of an arrow, and boxes that follow one another, the first reader first. */
function makeBlocks(cells) {
  const block = cells.map((_, c) => c);
  const followed = new Set();
  for (const [c, cell] of cells.entries()) {
    const before = cell.up.find((n) => cells[n].box === cell.box && !followed.has(n));
    if (before === undefined) continue;
    followed.add(before);
    block[c] = block[before];
  }
  return block;
}

/** Boxes come before bends in `cells`, and each in order of rank along its chain, so that blocks are known from above. */
function straighten(rows, cells, block, x, far) {
  for (let round = 0; round < 8; round++) {
    const sums = new Map();
    cells.forEach((cell, c) => {
      const sum = sums.get(block[c]) ?? { x: 0, n: 0 };
      sums.set(block[c], { x: sum.x + x[c], n: sum.n + 1 });
    });
    const size = (c) => sums.get(block[c]).n;
    for (const row of rows)
      settle(row.map((c) => sums.get(block[c]).x / size(c)), row.map((c) => size(c) * (cells[c].box ? 4 : 1)), row.slice(1).map((c, i) => far(row[i], c)))
        .forEach((at, i) => { x[row[i]] = at; });
  }
}

function placeRows(rows, cells) {
  const x = new Array(cells.length).fill(0);
  const far = (a, b) => (cells[a].width + cells[b].width) / 2 + GAP;
  for (const row of rows) row.forEach((c, i) => { x[c] = i ? x[row[i - 1]] + far(row[i - 1], c) : 0; });
  for (let sweep = 0; sweep < 24; sweep++) {
    const side = sweep % 2 ? ["down", "up"] : ["up", "down"];
    const both = sweep >= 16;
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const weights = [];
      const wish = row.map((c, i) => {
        let sum = 0;
        let weight = 0;
        for (const n of both ? [...cells[c].up, ...cells[c].down] : cells[c][side[0]].length ? cells[c][side[0]] : cells[c][side[1]]) {
          const w = pull(cells[c], cells[n]);
          sum += x[n] * w;
          weight += w;
        }
        weights[i] = (cells[c].box ? 4 : 1) * (weight || 0.1);
        return weight ? sum / weight : x[c];
      });
      settle(wish, weights, row.slice(1).map((c, i) => far(row[i], c))).forEach((at, i) => { x[row[i]] = at; });
    }
  }
  straighten(rows, cells, makeBlocks(cells), x, far);
  return x;
}

/** Spreads arrows over the top of a box by where they come from; returns the x of each chain's last point. */
function ports(chains, x) {
  const entering = new Map();
  chains.forEach((chain, e) => {
    const to = chain.at(-1);
    entering.set(to, [...(entering.get(to) ?? []), e]);
  });
  const end = [];
  for (const [to, list] of entering) {
    list.sort((a, b) => x[chains[a].at(-2)] - x[chains[b].at(-2)]);
    list.forEach((e, i) => { end[e] = x[to] + (i - (list.length - 1) / 2) * PORT; });
  }
  return end;
}

/**
 * Nodes {width, height} in topological order, edges {from, to} as indices of them. Returns the middle and top of each
 * node, the points of each edge, and the size of the whole: {nodes: [{x, y}], edges: [[[x, y], ...]], width, height}.
 */
export function layout(nodes, edges) {
  if (!nodes.length) return { nodes: [], edges: [], width: 0, height: 0 };
  const rank = rankAll(nodes, neighbours(nodes.length, edges));
  const low = Math.min(...rank);
  const { cells, chains } = makeCells(nodes, edges, rank.map((r) => r - low));
  const rows = orderRows(cells);
  const x = placeRows(rows, cells);
  const tops = [];
  let y = 0;
  rows.forEach((row, r) => {
    tops[r] = y;
    y += Math.max(0, ...row.map((c) => nodes[c]?.height ?? 0)) + STEP;
  });
  const left = Math.min(...cells.map((cell, c) => x[c] - cell.width / 2));
  const right = Math.max(...cells.map((cell, c) => x[c] + cell.width / 2));
  const end = ports(chains, x);
  const tall = (r) => (tops[r + 1] ?? y) - tops[r] - STEP;
  return {
    nodes: nodes.map((_, i) => ({ x: x[i] - left, y: tops[cells[i].rank] })),
    edges: chains.map((chain, e) => chain.flatMap((c, i) => {
      const { rank: r, box } = cells[c];
      if (i === 0) return [[x[c] - left, tops[r] + nodes[c].height]];
      if (i === chain.length - 1) return [[end[e] - left, tops[r]]];
      return box ? [] : [[x[c] - left, tops[r]], [x[c] - left, tops[r] + tall(r)]];
    })),
    width: right - left,
    height: y - STEP,
  };
}
