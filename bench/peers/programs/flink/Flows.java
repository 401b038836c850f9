import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.assigners.SimpleSplitAssigner;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** Heavy hitters by a count-min sketch in one chained task: PAIRS_PER_RECORD WINDOW WINDOWS THRESHOLD FILE... */
public class Flows {
    public static void main(String[] words) throws Exception {
        Path[] paths = Arrays.stream(words, 4, words.length).map(Path::new).toArray(Path[]::new);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(1);
        env.getConfig().enableObjectReuse();
        Sketch sketch = new Sketch(
                Long.parseLong(words[1]), Integer.parseInt(words[2]), Double.parseDouble(words[3]));
        env.fromSource(
                        FileSource.forRecordStreamFormat(new Packets(Integer.parseInt(words[0])), paths)
                                .setSplitAssigner(SimpleSplitAssigner::new) // in order, so that a window is a pass
                                .build(),
                        WatermarkStrategy.noWatermarks(), "packets")
                .process(sketch)
                .sinkTo(new DiscardingSink<>());
        env.execute("flows");
    }

    /** Puts out the heavy flows of each window; says when the first window is over and when the last. */
    static class Sketch extends ProcessFunction<long[], Long> {
        private static final int BITS = 13;
        private static final long[] ODD = {
            0x9E3779B97F4A7C15L, 0xC2B2AE3D27D4EB4FL, 0x165667B19E3779F9L, 0xD6E8FEB86659FD93L
        };
        private final long window;
        private final int windows;
        private final double threshold;
        private transient long[] counts;
        private transient Set<Long> candidates;
        private long packets;
        private int closed;

        Sketch(long window, int windows, double threshold) {
            this.window = window;
            this.windows = windows;
            this.threshold = threshold;
        }

        @Override
        public void open(OpenContext context) {
            counts = new long[ODD.length << BITS];
            candidates = new HashSet<>();
        }

        @Override
        public void processElement(long[] record, Context context, Collector<Long> out) {
            for (int i = 0; i < record.length; i += 2) {
                if (add(record[i], record[i + 1]) > threshold) {
                    candidates.add(record[i]);
                }
                if (++packets % window == 0) {
                    close(out);
                }
            }
        }

        /** The estimate of a flow after so many more bytes. */
        private long add(long flow, long bytes) {
            long least = Long.MAX_VALUE;
            for (int row = 0; row < ODD.length; row++) {
                int column = (row << BITS) + (int) (flow * ODD[row] >>> 64 - BITS);
                least = Math.min(least, counts[column] += bytes);
            }
            return least;
        }

        private void close(Collector<Long> out) {
            closed++;
            if (closed == 1) {
                System.out.println("begin");
            } else if (closed == windows) {
                System.out.println("end");
                candidates.forEach(flow -> System.out.println(Long.toUnsignedString(flow)));
                System.out.println("done");
            }
            candidates.forEach(out::collect);
            candidates.clear();
            Arrays.fill(counts, 0);
        }
    }
}
