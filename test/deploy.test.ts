// What stands in deploy/: the systemd unit is right, gives the process the time that it needs, and little else.

import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadConfig } from '../src/app/config/config.ts';
import { scratchFolder } from './support/scratch.ts';

const project = join(import.meta.dirname, '..');
const unit = readFileSync(join(project, 'deploy/postern.service'), 'utf8');

/** The values of a setting, in order. */
function settings(name: string): string[] {
  return [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value);
}

const hasAnalyze = spawnSync('systemd-analyze', ['--version']).status === 0;

/** The unit with its program where it is here, in a folder of its own, and drop-ins beside it. */
function unitHere(...dropIns: readonly string[]): string {
  const folder = scratchFolder();
  for (const name of dropIns) {
    mkdirSync(join(folder, 'postern.service.d'), { recursive: true });
    copyFileSync(join(project, 'deploy/postern.service.d', name), join(folder, 'postern.service.d', name));
  }
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'postern.service');
  writeFileSync(
    file,
    unit.replaceAll('/opt/postern/node_modules/.bin/node', process.execPath).replaceAll('/opt/postern', project),
  );
  return file;
}

test('the unit waits longer than the drain, keeps its data and runs commands that are there', () => {
  const { drainSeconds } = loadConfig({ cwd: project, env: {}, file: 'config/postern.yaml' });
  expect(Number(settings('TimeoutStopSec')[0])).toBeGreaterThan(drainSeconds);
  expect(settings('KillSignal')).toEqual(['SIGTERM']);
  expect(settings('StateDirectory')).toEqual(['postern']);
  expect(settings('Environment')).toContain('POSTERN_DATA_DIR=/var/lib/postern');
  expect(settings('RestartPreventExitStatus')).toEqual(['64 78']);
  for (const command of [...settings('ExecStart'), ...settings('ExecReload')]) {
    const [node = '', program = ''] = command.split(' ');
    expect(node).toBe('/opt/postern/node_modules/.bin/node');
    expect(existsSync(program.replace('/opt/postern', project))).toBe(true);
  }
});

test('systemd finds no fault in the unit', (context) => {
  if (!hasAnalyze) context.skip('systemd-analyze is not installed');
  const verified = spawnSync('systemd-analyze', ['verify', '--man=no', unitHere()], { encoding: 'utf8' });
  expect([verified.status, verified.stderr]).toEqual([0, '']);
});

test('systemd finds no fault in the drop-ins for PostgreSQL and for several processes', (context) => {
  if (!hasAnalyze) context.skip('systemd-analyze is not installed');
  const dropIns = ['postgresql.conf', 'processes.conf'];
  const unitWith = unitHere(...dropIns);
  const verified = spawnSync('systemd-analyze', ['verify', '--man=no', unitWith], { encoding: 'utf8' });
  expect([verified.status, verified.stderr]).toEqual([0, '']);
  // That they were read at all: a fault in one is told.
  writeFileSync(join(unitWith, '../postern.service.d/fault.conf'), '[Service]\nRestartSec=soon\n');
  expect(spawnSync('systemd-analyze', ['verify', '--man=no', unitWith], { encoding: 'utf8' }).stderr).toContain('soon');
});

test('systemd judges the unit to be little exposed', (context) => {
  if (!hasAnalyze) context.skip('systemd-analyze is not installed');
  const args = ['security', '--offline=true', '--no-pager', unitHere()];
  const judged = execFileSync('systemd-analyze', args, { encoding: 'utf8' });
  const exposure = /Overall exposure level for postern\.service: (\d+\.\d+)/.exec(judged)?.[1];
  expect(Number(exposure)).toBeLessThan(2);
});
