// What both drivers for node share, as measuring.py does for Python: the task, the handler that counts, the answer.
const { Client } = require('pg')

const CALLERS = 64
const BULK = 1000 // jobs to one bulk call
const task = JSON.parse(process.argv[2])
const far = new Date(Date.now() + 365 * 86400e3)
const numbers = [] // of the jobs that ran, as often as they ran

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

async function sql (...statements) {
  const client = new Client({ connectionString: task.dsn })
  await client.connect()
  let found
  for (const statement of statements) found = await client.query(statement)
  await client.end()
  return found.rows
}

const count = async from => (await sql(`select count(*)::int as n from ${from}`))[0].n

function eachRanOnce () {
  const different = new Set(numbers)
  let known = 0
  for (let number = 0; number < task.jobs; number++) if (different.has(number)) known++
  if (numbers.length !== task.jobs || known !== task.jobs) {
    throw new Error(`${numbers.length} runs of ${different.size} jobs; ${task.jobs} jobs were to run, each once`)
  }
}

function agree (what, found, jobs) {
  if (found !== jobs) throw new Error(`${found} ${what} where ${jobs} belong`)
}

async function timed (work) {
  const started = performance.now()
  await work()
  const seconds = (performance.now() - started) / 1000
  return { jobs: task.jobs, seconds: Math.round(1000 * seconds) / 1000, per_s: Math.round(10 * task.jobs / seconds) / 10 }
}

// So many creates by 64 callers who each wait for theirs.
async function byCallers (create) {
  let next = 0
  const caller = async () => { while (next < task.jobs) await create(next++) }
  await Promise.all(Array.from({ length: CALLERS }, caller))
}

// The numbers of all jobs, a bulk call's at a time.
async function inBulk (create) {
  for (let first = 0; first < task.jobs; first += BULK) {
    await create(Array.from({ length: Math.min(BULK, task.jobs - first) }, (_, n) => first + n))
  }
}

// Runs the measurement that is asked for and prints the one line. A peer's timers are not waited for.
async function main (name, measures) {
  try {
    const said = await measures[task.measure]()
    const version = require(`${name}/package.json`).version
    const peak = Math.round(process.resourceUsage().maxRSS / 1024)
    console.log(JSON.stringify({ version, peak_mb: peak, ...said }))
    process.exit(0)
  } catch (error) {
    console.error(error)
    process.exit(1)
  }
}

module.exports = { task, far, numbers, sleep, sql, count, eachRanOnce, agree, timed, byCallers, inBulk, main }
