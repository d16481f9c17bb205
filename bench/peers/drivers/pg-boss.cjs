// pg-boss: two loops of fetch and complete, 1,000 jobs each: work() waits half a second between batches.
const PgBoss = require('pg-boss')
const { task, far, numbers, sql, count, eachRanOnce, agree, timed, byCallers, inBulk, main } = require('./measuring.cjs')

const BATCH = 1000
const LOOPS = 2

async function prepared () {
  const boss = new PgBoss({ connectionString: task.dsn, max: 16, supervise: false, schedule: false })
  boss.on('error', error => console.error(error))
  await boss.start()
  await boss.createQueue('q')
  return boss
}

const insert = (boss, startAfter) => inBulk(some => boss.insert(some.map(number => ({ name: 'q', data: { number }, startAfter }))))

async function drain () {
  const boss = await prepared()
  await insert(boss, new Date(Date.now() - 300e3))
  await sql('vacuum analyze pgboss.job', 'checkpoint')
  const loop = async () => {
    for (;;) {
      const jobs = await boss.fetch('q', { batchSize: BATCH })
      if (!jobs.length) return
      for (const job of jobs) numbers.push(job.data.number)
      await boss.complete('q', jobs.map(job => job.id))
    }
  }
  const took = await timed(() => Promise.all(Array.from({ length: LOOPS }, loop)))
  const recorded = await count("pgboss.job where name = 'q' and state = 'completed'")
  eachRanOnce()
  agree('completed rows', recorded, task.jobs)
  return { ...took, recorded }
}

async function create () {
  const boss = await prepared()
  const took = await timed(() => byCallers(number => boss.sendAfter('q', { number }, null, far)))
  agree('rows', await count("pgboss.job where name = 'q'"), task.jobs)
  return took
}

async function bulk () {
  const boss = await prepared()
  const took = await timed(() => insert(boss, far))
  agree('rows', await count("pgboss.job where name = 'q'"), task.jobs)
  return took
}

main('pg-boss', { drain, create, bulk })
