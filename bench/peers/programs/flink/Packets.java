import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.reader.SimpleStreamFormat;
import org.apache.flink.connector.file.src.reader.StreamFormat;
import org.apache.flink.core.fs.FSDataInputStream;

/** Reads packets of .npy files, 64 bytes each, as records of so many pairs: flow and bytes of payload. */
public class Packets extends SimpleStreamFormat<long[]> {
    private static final int PACKET = 64;
    private static final int PAYLOAD_AT = 52;
    private static final int FLOW_AT = 56;
    private static final int PACKETS_AT_ONCE = 10_000;
    private final int pairs;

    public Packets(int pairs) {
        this.pairs = pairs;
    }

    @Override
    public StreamFormat.Reader<long[]> createReader(Configuration config, FSDataInputStream stream)
            throws IOException {
        NpyFormat.skipHeader(stream);
        return new Pairs(stream, pairs);
    }

    @Override
    public TypeInformation<long[]> getProducedType() {
        return PrimitiveArrayTypeInfo.LONG_PRIMITIVE_ARRAY_TYPE_INFO;
    }

    /** The records of one file; the last may have fewer pairs. */
    private static class Pairs implements StreamFormat.Reader<long[]> {
        private final FSDataInputStream stream;
        private final ByteBuffer buffer =
                ByteBuffer.allocate(PACKET * PACKETS_AT_ONCE).order(ByteOrder.LITTLE_ENDIAN).limit(0);
        private final int pairs;

        Pairs(FSDataInputStream stream, int pairs) {
            this.stream = stream;
            this.pairs = pairs;
        }

        @Override
        public long[] read() throws IOException {
            if (!buffer.hasRemaining()) {
                int count = stream.readNBytes(buffer.array(), 0, buffer.capacity());
                if (count == 0) {
                    return null;
                }
                buffer.limit(count).position(0);
            }
            long[] record = new long[2 * Math.min(pairs, buffer.remaining() / PACKET)];
            for (int i = 0; i < record.length; i += 2) {
                int packet = buffer.position();
                record[i] = buffer.getLong(packet + FLOW_AT);
                record[i + 1] = Integer.toUnsignedLong(buffer.getInt(packet + PAYLOAD_AT));
                buffer.position(packet + PACKET);
            }
            return record;
        }

        @Override
        public void close() throws IOException {
            stream.close();
        }
    }
}
