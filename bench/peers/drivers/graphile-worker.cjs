// graphile-worker: 24 jobs at once, 500 fetched ahead, completions in batches. It deletes a finished job.
const { run, makeWorkerUtils, Logger } = require('graphile-worker')
const { Pool } = require('pg')
const { task, far, numbers, sleep, sql, count, eachRanOnce, agree, timed, byCallers, inBulk, main } = require('./measuring.cjs')

const JOBS = 'graphile_worker._private_jobs'
const logger = new Logger(() => () => {})

async function prepared () {
  const pgPool = new Pool({ connectionString: task.dsn, max: 16 })
  const utils = await makeWorkerUtils({ pgPool, logger })
  await utils.migrate()
  const bulk = runAt => inBulk(some => utils.addJobs(some.map(number => ({ identifier: 'noop', payload: { number }, runAt }))))
  return { utils, bulk }
}

async function drain () {
  const { bulk } = await prepared()
  await bulk(new Date(Date.now() - 300e3))
  agree('rows', await count(JOBS), task.jobs)
  await sql(`vacuum analyze ${JOBS}`, 'checkpoint')
  const worker = {
    connectionString: task.dsn,
    concurrentJobs: 24,
    pollInterval: 2000,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    maxPoolSize: 16,
    logger
  }
  const took = await timed(async () => {
    const taskList = { noop: payload => { numbers.push(payload.number) } }
    await run({ preset: { worker }, taskList, noHandleSignals: true, crontab: '' })
    do await sleep(10); while (numbers.length < task.jobs || await count(JOBS) > 0)
  })
  eachRanOnce()
  return { ...took, recorded: null }
}

async function create () {
  const { utils } = await prepared()
  const took = await timed(() => byCallers(number => utils.addJob('noop', { number }, { runAt: far })))
  agree('rows', await count(JOBS), task.jobs)
  return took
}

async function bulk () {
  const { bulk } = await prepared()
  const took = await timed(() => bulk(far))
  agree('rows', await count(JOBS), task.jobs)
  return took
}

main('graphile-worker', { drain, create, bulk })
