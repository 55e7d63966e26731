// Loaded into a process under test (`--import`): tells its parent over the IPC channel how long the longest turn of its
// event loop was since the last question, by the clock and by the CPU that the main thread used in it.

const everyMs = 2;

let lastWall = performance.now();
let lastCpu = process.threadCpuUsage();
let longestWallMs = 0;
let longestCpuMs = 0;

function look(): void {
  const wall = performance.now();
  const cpu = process.threadCpuUsage();
  longestWallMs = Math.max(longestWallMs, wall - lastWall);
  longestCpuMs = Math.max(longestCpuMs, (cpu.user + cpu.system - lastCpu.user - lastCpu.system) / 1000);
  lastWall = wall;
  lastCpu = cpu;
}

setInterval(look, everyMs).unref();
process.on('message', () => {
  look();
  process.send?.({ longestWallMs, longestCpuMs });
  longestWallMs = 0;
  longestCpuMs = 0;
});
process.channel?.unref();
