/** What a store measures of itself, for the metrics. */

/** Connections to the database. */
interface PoolMeasures {
  /** Maximum number of open connections. */
  limit: number;
  /** Connections that run a job, or that the server has not let go yet. */
  busy: number;
  /** Jobs that wait for a connection. */
  waiting: number;
  /** Connections given up because a statement passed its deadline, which the server has not let go yet. */
  abandoned: number;
  /** Errors of the database and of connections to it, by reason; also those after which a job ran again. */
  errors: Readonly<Record<string, number>>;
}

export interface StoreMeasures {
  /** Writes that were accepted but have not finished. */
  waitingWrites: number;
  /** Size of the write-ahead log (WAL) in bytes; undefined if the engine does not report it. */
  walBytes: number | undefined;
  /** Writes that the store could not commit since it was opened, by reason; of the kinds that `metrics.commit` counts. */
  failedWrites: Readonly<Record<string, number>>;
  /** The file system of the store, in bytes; undefined if the engine's files are elsewhere. */
  disk?: { size: number; available: number } | undefined;
  /** Undefined if the engine has no connections. */
  pool?: PoolMeasures | undefined;
}
