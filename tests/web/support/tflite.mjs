// Makes a model that the server must refuse: the same file, but one kind of operator is named as another.

const DEPTHWISE_CONV_2D = 4;
const DEPTH_TO_SPACE = 5;

/** The bytes of a TFLite file whose depthwise convolutions claim to be an operator that nobody supports. */
export function withUnknownOperator(bytes) {
  const out = Buffer.from(bytes);
  const field = (table, i) => {
    const vtable = table - out.readInt32LE(table);
    const offset = 4 + 2 * i < out.readUInt16LE(vtable) ? out.readUInt16LE(vtable + 4 + 2 * i) : 0;
    return offset ? table + offset : 0;
  };
  const follow = (at) => at + out.readUInt32LE(at);
  const codes = follow(field(follow(0), 1)); // Model.operator_codes
  for (let i = 0; i < out.readUInt32LE(codes); i++) {
    const code = follow(codes + 4 + 4 * i);
    const [short, long] = [field(code, 0), field(code, 3)]; // deprecated_builtin_code, builtin_code
    if ((short ? out.readInt8(short) : 0) !== DEPTHWISE_CONV_2D && (long ? out.readInt32LE(long) : 0) !== DEPTHWISE_CONV_2D) continue;
    if (short) out.writeInt8(DEPTH_TO_SPACE, short);
    if (long) out.writeInt32LE(DEPTH_TO_SPACE, long);
  }
  return out;
}
