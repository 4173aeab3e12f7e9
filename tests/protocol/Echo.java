import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads and rewrites messages with Apache Kafka's generated classes. Each line of the input,
 * "name version hex", is answered by one line: "bytes-left-over hex", "absent" for a message or
 * version this release does not have, or the exception.
 */
public final class Echo {
    private static final String[] PLACES = {
        "org.apache.kafka.common.message.%sData",
        "org.apache.kafka.common.message.%s",
        "org.apache.kafka.common.metadata.%s",
        "org.apache.kafka.coordinator.group.generated.%s",
    };

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in));
        var answers = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ", -1);
            answers.append(echo(words[0], Short.parseShort(words[1]), words[2])).append('\n');
        }
        System.out.print(answers);
    }

    private static String echo(String name, short version, String hex) {
        try {
            Message message = find(name);
            if (message == null || version < message.lowestSupportedVersion()
                    || version > message.highestSupportedVersion()) {
                return "absent";
            }
            ByteBuffer data = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
            message.read(new ByteBufferAccessor(data), version);
            var cache = new ObjectSerializationCache();
            ByteBuffer again = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(again), cache, version);
            return data.remaining() + " " + HexFormat.of().formatHex(again.array());
        } catch (Exception error) {
            return error.toString().replace('\n', ' ');
        }
    }

    private static Message find(String name) throws ReflectiveOperationException {
        for (String place : PLACES) {
            try {
                var found = Class.forName(String.format(place, name));
                return (Message) found.getDeclaredConstructor().newInstance();
            } catch (ClassNotFoundException error) {
                continue;
            }
        }
        return null;
    }
}
