// What a gateway's parts ask of the other processes of the same server, where several share its work.

/** The doors whose connections are counted over all processes, each with limits of its own. */
export type CountedDoor = 'smtp' | 'bounce' | 'http' | 'admin';

/** How many connections a door may have over all processes. */
export interface SharedConnectionLimits {
  readonly connections: number;
  /** Absent: the client's address is not counted. */
  readonly connectionsPerAddress?: number;
}

/** Counts the connections of one door over all processes. */
export interface SharedConnections {
  /** Counts a connection until `closed`, or tells which limit is reached. @param address as counted @throws without a supervisor */
  take(address: string, limits: SharedConnectionLimits): Promise<'all' | 'address' | undefined>;
  closed(address: string): void;
}

/** Counts the messages of accounts in the last minute, over all processes. */
export interface SharedMinutes {
  /** Counts a message. @returns seconds until it may come; 0 where it was counted @throws Error where the supervisor is gone */
  take(account: string, limit: number): Promise<number>;
  /** Tells the same without counting. @throws Error where the supervisor is gone */
  ask(account: string, limit: number): Promise<number>;
  giveBack(account: string): void;
}

/** Places of which there are so many, by a name that is the same in all processes. */
export interface SlotWanted {
  readonly key: string;
  readonly most: number;
}

/** Counts places that are taken over all processes. What a process had taken is free when it has ended. */
export interface SharedSlots {
  /** Takes a place of each key, or none. @returns the index of one that has none left, if any @throws Error without a supervisor */
  take(wanted: readonly SlotWanted[]): Promise<number | undefined>;
  /** Tells the same without taking any. @throws Error where the supervisor is gone */
  ask(wanted: readonly SlotWanted[]): Promise<number | undefined>;
  giveBack(keys: readonly string[]): void;
}

/** How often a client may do something in a window of time, which begins with the first time. */
export interface WindowLimit {
  readonly requests: number;
  readonly perSeconds: number;
}

/** Counts what clients do in windows of time, over all processes. */
export interface SharedWindows {
  /** Counts one more of a client. @param name what is limited @returns seconds to the end of its window where it is too many, or 0 @throws Error without a supervisor */
  take(name: string, limit: WindowLimit, address: string): Promise<number>;
}

/** Metrics as values, one object a name, as prom-client gives them. */
export type MetricValues = readonly object[];

/** What is asked of the process that carries the proxy applications. */
export interface CarrierQuestion {
  /** Whose state is told; absent: that of all. */
  readonly ids?: readonly string[];
  /** Their traffic as well: its sums, or its origins and latest events too. */
  readonly traffic?: 'sums' | 'all';
  /** What was written before is to be in force first. */
  readonly follows?: boolean;
}

/** One object an application, as the proxy applications tell them. */
export type CarrierAnswer = readonly object[];

/** The processes that share the work of one server, as one of them sees them. */
export interface ProcessGroup {
  readonly count: number;
  /** Whether a process takes connections and mail, and none says that it takes none. All are asked, and what they know is in the answer. */
  isReady(): Promise<boolean>;
  connections(door: CountedDoor): SharedConnections;
  readonly minutes: SharedMinutes;
  readonly places: SharedSlots;
  readonly windows: SharedWindows;
  tellFailure(address: string): void;
  /** Has wrong tokens told that the others have seen. */
  hearFailures(heard: (address: string) => void): void;
  /** Adds up the metrics of all processes. @returns the text in the form of Prometheus */
  sumMetrics(own: MetricValues): Promise<string>;
  /** Begins what one process of the server does: now if it is this one, or when it takes over. Nobody takes it from one that runs. */
  onDuty(begin: () => void): void;
  /** Asks the process on duty how the proxy applications are. @returns undefined without an answer @throws Error without a supervisor */
  askCarrier(question: CarrierQuestion): Promise<CarrierAnswer | undefined>;
  /** Waits until all processes are ready for another configuration. @throws ConfigurationError where one is not: then none changes */
  agree(): Promise<void>;
}
