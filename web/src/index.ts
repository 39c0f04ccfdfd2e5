// The package: import { Sluice } from 'sluice'.
export { Answer, mediaOf, Sluice, Teaching } from './client.ts';
export type { GenerateOptions, LoadOptions, ModelSource, TeachOptions } from './client.ts';
export { Chat } from './chat.ts';
export type { ChatOptions } from './chat.ts';
export type { AnswererFacts, LanguageModel } from './language_model.ts';
export { Server, ServerModel } from './server.ts';
export { formatBytes, SluiceError } from './errors.ts';
export type { ErrorKind } from './errors.ts';
export { Adapters } from './adapters.ts';
export type { AdapterOptions } from './adapters.ts';
export type {
  AdapterFacts,
  AnswerResult,
  Device,
  ExampleCounts,
  ExpertStats,
  Finish,
  LoadProgress,
  LoadStage,
  MediaFacts,
  MediaPart,
  Message,
  ModelFacts,
  Part,
  Piece,
  Role,
  Sampling,
  Stats,
  Taught,
  TeachProgress,
  ToolCall,
} from './protocol.ts';
export type { StoredModel } from './storage.ts';
