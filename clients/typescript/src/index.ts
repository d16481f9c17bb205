export { WakefulError, Wakeful, report, type Options } from "./client.ts";
export { receiver, type Context, type OnWake, type Receiver, type ReceiverOptions } from "./receiver.ts";
export { BadSignature, verify, type HeadersLike, type VerifyOptions } from "./signature.ts";
export type * from "./types.ts";
export { prompt, type Wake } from "./wake.ts";
